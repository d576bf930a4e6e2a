"""Organisations and the teams below them."""

from collections.abc import Sequence

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from domain.errors import Conflict, Invalid, NotFound
from domain.ids import TenantId
from domain.quota_terms import QuotaRules
from store.clock import now_us
from store.events import record
from store.ids import new_id
from store.locks import tree
from store.paging import Position, after
from store.quota_settings import open_quota, set_quota
from store.tables import Tenant

DEPTH_MAX = 8
"""Levels of tenants: each admission walks them all."""


def create_tenant(
    session: Session,
    name: str,
    parent_id: str | None,
    weight: int,
    default_isolation: str,
    default_time_limit_us: int,
    rules: QuotaRules,
) -> Tenant:
    """A new, active tenant, with `rules` as its quota.

    Raises:
        Conflict: the name is taken.
        Invalid: there is no such parent, or the tree would be too deep.
    """
    if parent_id is not None:
        if session.get(Tenant, parent_id) is None:
            raise Invalid("there is no such parent tenant")
        if len(tree(session, parent_id)) >= DEPTH_MAX:
            raise Invalid(f"tenants are nested at most {DEPTH_MAX} deep")
    tenant = Tenant(
        id=new_id("ten"),
        name=name,
        parent_id=parent_id,
        weight=weight,
        default_isolation=default_isolation,
        default_time_limit_us=default_time_limit_us,
        created_us=now_us(session),
    )
    try:
        with session.begin_nested():
            session.add(tenant)
    except IntegrityError:
        raise Conflict(f"there is a tenant called {name} already", "choose another name") from None
    open_quota(session, tenant.id)
    set_quota(session, tenant.id, rules)
    record(session, "tenant_created", tenant_id=tenant.id)
    return tenant


def tenant(session: Session, tenant_id: str) -> Tenant:
    """One tenant.

    Raises:
        NotFound: there is none with that id.
    """
    found = session.get(Tenant, tenant_id)
    if found is None:
        raise NotFound("tenant")
    return found


def tenants(session: Session, scope: TenantId | None, limit: int, start: Position | None) -> Sequence[Tenant]:
    """The tenants within the scope, newest first; one more than `limit` if there are."""
    query = select(Tenant)
    if scope is not None:
        query = query.where(col(Tenant.id).in_(below(session, scope)))
    if start is not None:
        query = query.where(after(start, col(Tenant.created_us), col(Tenant.id)))
    return session.exec(query.order_by(col(Tenant.created_us).desc(), col(Tenant.id).desc()).limit(limit + 1)).all()


def below(session: Session, tenant_id: TenantId) -> frozenset[TenantId]:
    """The tenant and all below it."""
    found: set[TenantId] = set()
    layer = [tenant_id]
    while layer:
        found.update(layer)
        children = session.exec(select(Tenant.id).where(col(Tenant.parent_id).in_(layer))).all()
        layer = [TenantId(each) for each in children]
    return frozenset(found)


def suspend(session: Session, tenant_id: str) -> Tenant:
    """Nothing of it or of those below it is submitted or started any more; what runs goes on."""
    return _set_state(session, tenant_id, "suspended")


def resume(session: Session, tenant_id: str) -> Tenant:
    """It may submit and start jobs again."""
    return _set_state(session, tenant_id, "active")


def _set_state(session: Session, tenant_id: str, state: str) -> Tenant:
    found = tenant(session, tenant_id)
    if found.state != state:
        found.state = state
        record(session, f"tenant_{state}", tenant_id=tenant_id)
        session.flush()
    return found
