"""Who changed what, and whether the record of it is whole."""

from typing import Annotated

from corral.audit import AuditChainView, AuditEntryView
from corral.contract import Page
from fastapi import APIRouter, Query

from api.auth import TenantAdminCaller
from api.paging import AskedPage
from api.paths import TenantQuery, TimeQuery
from api.transactions import Reading
from api.views.audit import audit_chain_view, audit_entry_view
from domain.ledger import ChainHead
from store import audit, audit_check
from store.audit_check import Reached
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
def verify(
    caller: TenantAdminCaller, session: Reading, paging: AskedPage, tenant_id: TenantQuery = None
) -> Page[AuditChainView]:
    """Whether the chains are sound, and where each first is not. A long one comes in pieces, a page for each."""
    found, reached = audit_check.verify(session, caller.narrowed(tenant_id), _reached(paging.start), paging.limit)
    following = None if reached is None else paging.cursor(_position(reached))
    return Page(items=[audit_chain_view(each) for each in found], next=following)


def _position(reached: Reached) -> Position:
    if reached.upto is None:
        return Position(0, reached.chain)
    return Position(reached.upto.count, f"{reached.chain} {reached.upto.hash}")


def _reached(position: Position | None) -> Reached | None:
    """Whoever forges one deceives only himself."""
    if position is None:
        return None
    chain, _, hash = position.id.partition(" ")
    return Reached(chain, ChainHead(position.key, hash) if hash else None)
