"""The quota, what is asked for beyond it, and what a change of it would do."""

from corral.cluster import Empty
from corral.contract import Page
from corral.quotas import (
    QuotaAsk,
    QuotaGrantSpec,
    QuotaPreview,
    QuotaPreviewSpec,
    QuotaRefusal,
    QuotaRequestView,
    QuotaView,
    RequestState,
)
from fastapi import APIRouter
from starlette.responses import Response

from api.after_commit import Tell
from api.auth import AdminCaller, TenantAdminCaller, TenantCaller
from api.once import AskedOnce
from api.paging import AskedPage
from api.paths import QuotaRequestPath, TenantQuery
from api.quota_terms import rules_of, shown
from api.transactions import Reading, Writing
from api.views.quotas import preview_view, request_view
from domain.ids import TenantId
from domain.scheduling.snapshot import WHOLE_GPU
from store import quota_requests
from store.paging import Position
from store.quota_previews import preview
from store.quota_requests import Terms
from store.tenants import tenant

router = APIRouter(prefix="/quota", tags=["quota"])


@router.get("")
def show_quota(caller: TenantCaller, session: Reading, response: Response, tenant_id: TenantQuery = None) -> QuotaView:
    """What the tenant may use, and what it uses."""
    return shown(session, tenant(session, caller.acting_for(tenant_id)).id, response)


@router.post("/preview")
def preview_quota(body: QuotaPreviewSpec, caller: TenantAdminCaller, session: Reading) -> QuotaPreview:
    """What a quota would do if it were set: what runs beyond it, would start, would wait. Nothing is stored."""
    return preview_view(preview(session, caller.scope, TenantId(body.tenant_id), rules_of(body.quota)))


@router.get("/requests")
def list_requests(
    caller: TenantCaller,
    session: Reading,
    paging: AskedPage,
    state: RequestState | None = None,
    tenant_id: TenantQuery = None,
) -> Page[QuotaRequestView]:
    """What the tenant and those below it asked for beyond their quotas, newest first; of an admin, all tenants."""
    scope = caller.narrowed(tenant_id)
    rows = quota_requests.requests(session, scope, state, paging.limit, paging.start)
    return paging.page(rows, request_view, lambda row: Position(row.created_us, row.id))


@router.post("/requests", status_code=201, response_model=QuotaRequestView)
def ask(
    body: QuotaAsk, caller: TenantAdminCaller, session: Writing, once: AskedOnce, tenant_id: TenantQuery = None
) -> Response:
    """Ask for more, for a time. An admin grants or refuses it."""
    owner = caller.acting_for(tenant_id)
    terms = Terms(body.limit * WHOLE_GPU, body.guaranteed * WHOLE_GPU, body.until)
    return once.create(
        session,
        body,
        lambda: request_view(quota_requests.ask(session, owner, body.model, terms, body.reason, caller.key_id)),
    )


@router.get("/requests/{request_id}")
def show_request(request_id: QuotaRequestPath, caller: TenantCaller, session: Reading) -> QuotaRequestView:
    """One of them."""
    return request_view(quota_requests.request(session, caller.scope, request_id))


@router.post("/requests/{request_id}/withdraw")
def withdraw(
    request_id: QuotaRequestPath, caller: TenantAdminCaller, session: Writing, body: Empty | None = None
) -> QuotaRequestView:
    """Take it back; what was granted is given back at once."""
    return request_view(quota_requests.withdraw(session, caller.scope, request_id))


@router.post("/requests/{request_id}/grant")
def grant(
    request_id: QuotaRequestPath,
    caller: AdminCaller,
    session: Writing,
    tell: Tell,
    body: QuotaGrantSpec | None = None,
) -> QuotaRequestView:
    """Grant it, as it was asked for or as is said. It ends by itself."""
    said = body or QuotaGrantSpec()
    asked = quota_requests.terms_of(quota_requests.request(session, None, request_id))
    terms = Terms(
        asked.limit_milli if said.limit is None else said.limit * WHOLE_GPU,
        asked.guaranteed_milli if said.guaranteed is None else said.guaranteed * WHOLE_GPU,
        asked.until_us if said.until is None else said.until,
    )
    tell.wake()
    return request_view(quota_requests.grant(session, request_id, terms, said.answer or "", caller.key_id))


@router.post("/requests/{request_id}/refuse")
def refuse(request_id: QuotaRequestPath, body: QuotaRefusal, caller: AdminCaller, session: Writing) -> QuotaRequestView:
    """Refuse it, with a reason."""
    return request_view(quota_requests.refuse(session, request_id, body.reason, caller.key_id))
