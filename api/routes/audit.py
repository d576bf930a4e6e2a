"""Who changed what, and whether the record of it is whole."""

from typing import Annotated

from corral.audit import AuditChainView, AuditCheck, AuditEntryView
from corral.contract import Page
from fastapi import APIRouter, Query

from api.auth import TenantAdminCaller
from api.paging import AskedPage
from api.paths import TenantQuery, TimeQuery
from api.transactions import Reading
from api.views.audit import audit_chain_view, audit_entry_view
from store import audit
from store.paging import Position

router = APIRouter(prefix="/audit", tags=["audit"])

Text = Annotated[str | None, Query(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]*$")]


@router.get("")
def list_entries(
    caller: TenantAdminCaller,
    session: Reading,
    paging: AskedPage,
    actor: Text = None,
    what: Text = None,
    target: Text = None,
    since: TimeQuery = None,
    until: TimeQuery = None,
    tenant_id: TenantQuery = None,
) -> Page[AuditEntryView]:
    """Changes of the tenant and those below it, newest first. An admin sees all, or a tenant's with those below."""
    asked = audit.AuditFilter(actor, what, target, since, until)
    rows = audit.entries(session, caller.narrowed(tenant_id), asked, paging.limit, paging.start_name)
    return paging.page(rows, audit_entry_view, lambda row: Position(0, row.id))


@router.get("/verify")
def verify(caller: TenantAdminCaller, session: Reading, tenant_id: TenantQuery = None) -> AuditCheck:
    """Whether the chains are sound, and where each first is not."""
    chains: list[AuditChainView] = [
        audit_chain_view(each) for each in audit.verify(session, caller.narrowed(tenant_id))
    ]
    return AuditCheck(is_sound=all(chain.is_sound for chain in chains), chains=chains)
