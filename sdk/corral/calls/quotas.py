"""Requests about quotas."""

from corral.call import PAGE_LIMIT, Call, act, create, get, place, put
from corral.contract import Page
from corral.quotas import (
    QuotaAsk,
    QuotaGrantSpec,
    QuotaPreview,
    QuotaPreviewSpec,
    QuotaRefusal,
    QuotaRequestView,
    QuotaSpec,
    QuotaView,
)


def quota(*, tenant_id: str | None = None) -> Call[QuotaView]:
    """The own quota, or, for an admin, a tenant's."""
    return get(place("quota"), QuotaView, tenant_id=tenant_id)


def tenant_quota(tenant_id: str) -> Call[QuotaView]:
    """A tenant's quota and what is used of it (admin)."""
    return get(place("tenants", tenant_id, "quota"), QuotaView)


def set_tenant_quota(tenant_id: str, spec: QuotaSpec, *, version: int | None = None) -> Call[QuotaView]:
    """Set a tenant's quota, whole (admin); with `version`, only if it still is the one that was read."""
    call = put(place("tenants", tenant_id, "quota"), QuotaView, spec)
    return call if version is None else call.with_header("If-Match", f'"{version}"')


def preview_quota(spec: QuotaPreviewSpec) -> Call[QuotaPreview]:
    """What a change of a quota would do now; nothing is stored."""
    return act(place("quota", "preview"), QuotaPreview, is_repeatable=True, body=spec)


def quota_requests(*, state: str | None = None, tenant_id: str | None = None) -> Call[Page[QuotaRequestView]]:
    """What was asked for beyond the quota, by the tenant and those below it; of an admin, by all."""
    place_of = place("quota", "requests")
    return get(place_of, Page[QuotaRequestView], state=state, tenant_id=tenant_id, limit=PAGE_LIMIT)


def quota_request(request_id: str) -> Call[QuotaRequestView]:
    """One of them."""
    return get(place("quota", "requests", request_id), QuotaRequestView)


def ask_for_quota(spec: QuotaAsk, *, tenant_id: str | None = None) -> Call[QuotaRequestView]:
    """Ask for more, for a time."""
    return create(place("quota", "requests"), QuotaRequestView, spec, tenant_id=tenant_id)


def withdraw_quota_request(request_id: str) -> Call[QuotaRequestView]:
    """Take a wish back, or give back what was granted."""
    return act(place("quota", "requests", request_id, "withdraw"), QuotaRequestView, is_repeatable=True)


def grant_quota_request(request_id: str, spec: QuotaGrantSpec | None = None) -> Call[QuotaRequestView]:
    """Grant it, as asked or as said (admin); it ends by itself."""
    path = place("quota", "requests", request_id, "grant")
    return act(path, QuotaRequestView, is_repeatable=True, body=spec or QuotaGrantSpec())


def refuse_quota_request(request_id: str, spec: QuotaRefusal) -> Call[QuotaRequestView]:
    """Refuse it, with a reason (admin)."""
    return act(place("quota", "requests", request_id, "refuse"), QuotaRequestView, is_repeatable=True, body=spec)
