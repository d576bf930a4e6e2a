"""Requests about tenants, quotas, prices and usage."""

from collections.abc import Sequence

from corral.accounts import (
    LedgerCheck,
    QuotaSpec,
    QuotaView,
    TenantSpec,
    TenantView,
    UsageView,
)
from corral.call import PAGE_LIMIT, Call, act, create, get, place, put
from corral.contract import Page


def usage(
    group_by: Sequence[str] = (), *, since: int | None = None, until: int | None = None, tenant_id: str | None = None
) -> Call[UsageView]:
    """What the ledger says, by any of tenant, model, job, day and cause; times in microseconds since the epoch."""
    groups = ",".join(group_by) or None
    return get(place("usage"), UsageView, group_by=groups, since=since, until=until, tenant_id=tenant_id)


def quota(*, tenant_id: str | None = None) -> Call[QuotaView]:
    """The own quota, or, for an admin, a tenant's."""
    return get(place("quota"), QuotaView, tenant_id=tenant_id)


def tenants() -> Call[Page[TenantView]]:
    """Every tenant (admin)."""
    return get(place("tenants"), Page[TenantView], limit=PAGE_LIMIT)


def tenant(tenant_id: str) -> Call[TenantView]:
    """One tenant (admin)."""
    return get(place("tenants", tenant_id), TenantView)


def create_tenant(spec: TenantSpec) -> Call[TenantView]:
    """A new tenant (admin); it has no GPU until a quota grants some."""
    return create(place("tenants"), TenantView, spec)


def suspend_tenant(tenant_id: str) -> Call[TenantView]:
    """Nothing of it starts any more (admin)."""
    return act(place("tenants", tenant_id, "suspend"), TenantView, is_repeatable=True)


def resume_tenant(tenant_id: str) -> Call[TenantView]:
    """It may start jobs again (admin)."""
    return act(place("tenants", tenant_id, "resume"), TenantView, is_repeatable=True)


def tenant_quota(tenant_id: str) -> Call[QuotaView]:
    """A tenant's quota and what is used of it (admin)."""
    return get(place("tenants", tenant_id, "quota"), QuotaView)


def set_tenant_quota(tenant_id: str, spec: QuotaSpec) -> Call[QuotaView]:
    """Set a tenant's quota, whole (admin)."""
    return put(place("tenants", tenant_id, "quota"), QuotaView, spec)


def verify_ledger(tenant_id: str) -> Call[LedgerCheck]:
    """Whether a tenant's chain is sound, and where it first is not (admin)."""
    return get(place("tenants", tenant_id, "ledger", "verify"), LedgerCheck)
