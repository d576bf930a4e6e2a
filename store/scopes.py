"""Whose rows a caller reaches: its tenant's and those of the tenants below it; or (None) everybody's."""

from sqlmodel import Session

from domain.ids import TenantId
from store.locks import tree
from store.tables import Tenant


def reaches(session: Session, scope: TenantId | None, tenant_id: str | None) -> bool:
    """Whether rows of that tenant, which exists, are within the scope. What has no tenant is the platform's alone."""
    if scope is None or scope == tenant_id:
        return True
    return tenant_id is not None and scope in tree(session, tenant_id)


def reaches_tenant(session: Session, scope: TenantId | None, tenant_id: str) -> bool:
    """The same, of a tenant that need not exist: then it is out of reach."""
    return tenant_id == scope or (session.get(Tenant, tenant_id) is not None and reaches(session, scope, tenant_id))
