"""Requests about tenants, prices and usage."""

from collections.abc import Sequence

from corral.accounts import (
    LedgerCheck,
    TenantSpec,
    TenantView,
    UsageView,
)
from corral.call import PAGE_LIMIT, Call, act, create, get, place
from corral.contract import Page


def usage(
    group_by: Sequence[str] = (), *, since: int | None = None, until: int | None = None, tenant_id: str | None = None
) -> Call[UsageView]:
    """What the ledger says, by any of tenant, model, job, day and cause; times in microseconds since the epoch."""
    groups = ",".join(group_by) or None
    return get(place("usage"), UsageView, group_by=groups, since=since, until=until, tenant_id=tenant_id)


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


def verify_ledger(tenant_id: str) -> Call[LedgerCheck]:
    """Whether a tenant's chain is sound, and where it first is not (admin)."""
    return get(place("tenants", tenant_id, "ledger", "verify"), LedgerCheck)
