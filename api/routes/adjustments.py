"""Credits and debits, signed by the server."""

from corral.contract import Page
from corral.ledger import AdjustmentSpec, LedgerEntryView
from fastapi import APIRouter
from starlette.responses import Response

from api.auth import AdminCaller
from api.once import AskedOnce
from api.paging import AskedPage
from api.parts import AppKeyring
from api.paths import TenantQuery
from api.transactions import Reading, Writing
from api.views.usage import entry_view
from domain.ids import TenantId
from store import adjustments
from store.paging import Position
from store.tables import LedgerEntry

router = APIRouter(prefix="/adjustments", tags=["adjustments"])


@router.post("", status_code=201, response_model=LedgerEntryView)
def adjust(
    body: AdjustmentSpec, caller: AdminCaller, session: Writing, once: AskedOnce, keyring: AppKeyring
) -> Response:
    """Credit (a negative amount) or debit a tenant. It is an entry of its own, and changes none that is there."""
    owner = TenantId(body.tenant_id)
    return once.create(
        session,
        body,
        lambda: entry_view(
            adjustments.adjust(session, keyring, owner, body.amount_micro, body.reason, caller.key_id, body.job_id)
        ),
    )


@router.get("")
def list_adjustments(
    caller: AdminCaller, session: Reading, paging: AskedPage, tenant_id: TenantQuery = None
) -> Page[LedgerEntryView]:
    """All adjustments, or those of one tenant, the newest first."""
    rows = adjustments.adjustments(session, caller.narrowed(tenant_id), paging.limit, paging.start)
    return paging.page(rows, entry_view, _position)


def _position(row: LedgerEntry) -> Position:
    return Position(row.posted_us, row.id)
