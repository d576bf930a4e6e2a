"""Requests about tenants."""

from corral.accounts import (
    TenantSpec,
    TenantView,
)
from corral.call import PAGE_LIMIT, Call, act, create, get, place
from corral.contract import Page


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
