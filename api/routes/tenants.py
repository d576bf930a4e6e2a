"""Tenants, their quotas Who has a role at one may look at it and those below."""

from corral.accounts import TenantSpec, TenantView
from corral.cluster import Empty
from corral.contract import Page
from corral.quotas import QuotaSpec, QuotaView
from fastapi import APIRouter
from starlette.responses import Response

from api.after_commit import Tell
from api.auth import AdminCaller, TenantCaller
from api.once import AskedOnce
from api.paging import AskedPage
from api.paths import TenantPath
from api.quota_terms import IfVersion, rules_of, shown
from api.transactions import Reading, Writing
from api.views.accounts import tenant_view
from domain.quota_terms import QuotaRules
from store import tenants
from store.paging import Position
from store.quota_settings import set_quota

router = APIRouter(prefix="/tenants", tags=["tenants"])


@router.get("")
def list_tenants(caller: TenantCaller, session: Reading, paging: AskedPage) -> Page[TenantView]:
    """The own tenant and those below it, newest first; for an admin, all."""
    rows = tenants.tenants(session, caller.scope, paging.limit, paging.start)
    return paging.page(rows, tenant_view, lambda row: Position(row.created_us, row.id))


@router.post("", status_code=201, response_model=TenantView)
def create(body: TenantSpec, caller: AdminCaller, session: Writing, once: AskedOnce) -> Response:
    """Make a tenant. It has no GPU until a quota grants some."""
    return once.create(
        session,
        body,
        lambda: tenant_view(
            tenants.create_tenant(
                session,
                body.name,
                body.parent_id,
                body.weight,
                body.default_isolation,
                body.default_time_limit,
                QuotaRules(),
            )
        ),
    )


@router.get("/{tenant_id}")
def show(tenant_id: TenantPath, caller: TenantCaller, session: Reading) -> TenantView:
    """One tenant."""
    return tenant_view(tenants.tenant(session, tenant_id))


@router.post("/{tenant_id}/suspend")
def suspend(tenant_id: TenantPath, caller: AdminCaller, session: Writing, body: Empty | None = None) -> TenantView:
    """Nothing of it is submitted or started any more; what runs goes on, and it may read and cancel."""
    return tenant_view(tenants.suspend(session, tenant_id))


@router.post("/{tenant_id}/resume")
def resume(
    tenant_id: TenantPath, caller: AdminCaller, session: Writing, tell: Tell, body: Empty | None = None
) -> TenantView:
    """It may submit and start jobs again."""
    tell.wake()
    return tenant_view(tenants.resume(session, tenant_id))


@router.get("/{tenant_id}/quota")
def show_quota(tenant_id: TenantPath, caller: TenantCaller, session: Reading, response: Response) -> QuotaView:
    """What it may use, and what it uses."""
    return shown(session, tenants.tenant(session, tenant_id).id, response)


@router.put("/{tenant_id}/quota")
def put_quota(
    tenant_id: TenantPath,
    body: QuotaSpec,
    caller: AdminCaller,
    session: Writing,
    tell: Tell,
    response: Response,
    if_version: IfVersion,
) -> QuotaView:
    """Set its quota, whole. What runs beyond a lowered bound goes on; nothing new starts."""
    set_quota(session, tenant_id, rules_of(body), if_version)
    tell.wake()
    return shown(session, tenant_id, response)
