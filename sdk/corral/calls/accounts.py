"""Requests about tenants, keys, quotas, prices and usage."""

from collections.abc import Sequence

from corral.accounts import (
    KeySpec,
    KeyView,
    LedgerCheck,
    NewKey,
    QuotaSpec,
    QuotaView,
    TenantSpec,
    TenantView,
    UsageView,
    Whoami,
)
from corral.call import PAGE_LIMIT, Call, act, create, delete, get, place, put
from corral.contract import Page


def whoami() -> Call[Whoami]:
    """Whose key this is."""
    return get(place("whoami"), Whoami)


def usage(
    group_by: Sequence[str] = (), *, since: int | None = None, until: int | None = None, tenant_id: str | None = None
) -> Call[UsageView]:
    """What the ledger says, by any of tenant, model, job, day and cause; times in microseconds since the epoch."""
    groups = ",".join(group_by) or None
    return get(place("usage"), UsageView, group_by=groups, since=since, until=until, tenant_id=tenant_id)


def quota(*, tenant_id: str | None = None) -> Call[QuotaView]:
    """The own quota, or, for an admin, a tenant's."""
    return get(place("quota"), QuotaView, tenant_id=tenant_id)


def keys() -> Call[Page[KeyView]]:
    """The keys of the own tenant."""
    return get(place("keys"), Page[KeyView], limit=PAGE_LIMIT)


def create_key(spec: KeySpec) -> Call[NewKey]:
    """A new key; its secret is in this answer and never again."""
    return create(place("keys"), NewKey, spec)


def revoke_key(key_id: str) -> Call[None]:
    """End a key of the own tenant, at once."""
    return delete(place("keys", key_id))


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


def tenant_keys(tenant_id: str) -> Call[Page[KeyView]]:
    """A tenant's keys (admin)."""
    return get(place("tenants", tenant_id, "keys"), Page[KeyView], limit=PAGE_LIMIT)


def create_tenant_key(tenant_id: str, spec: KeySpec) -> Call[NewKey]:
    """A new key for a tenant (admin)."""
    return create(place("tenants", tenant_id, "keys"), NewKey, spec)


def revoke_tenant_key(tenant_id: str, key_id: str) -> Call[None]:
    """End a tenant's key, at once (admin)."""
    return delete(place("tenants", tenant_id, "keys", key_id))


def verify_ledger(tenant_id: str) -> Call[LedgerCheck]:
    """Whether a tenant's chain is sound, and where it first is not (admin)."""
    return get(place("tenants", tenant_id, "ledger", "verify"), LedgerCheck)
