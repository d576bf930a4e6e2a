"""Requests about keys and members, and whose key this is."""

from corral.call import PAGE_LIMIT, Call, create, delete, get, place
from corral.contract import Page
from corral.identity import KeySpec, KeyView, NewKey, Whoami


def whoami() -> Call[Whoami]:
    """Whose key this is."""
    return get(place("whoami"), Whoami)


def keys() -> Call[Page[KeyView]]:
    """The keys of the own tenant."""
    return get(place("keys"), Page[KeyView], limit=PAGE_LIMIT)


def create_key(spec: KeySpec) -> Call[NewKey]:
    """A new key; its secret is in this answer and never again."""
    return create(place("keys"), NewKey, spec)


def revoke_key(key_id: str) -> Call[None]:
    """End a key of the own tenant, at once."""
    return delete(place("keys", key_id))


def tenant_keys(tenant_id: str) -> Call[Page[KeyView]]:
    """A tenant's keys (admin)."""
    return get(place("tenants", tenant_id, "keys"), Page[KeyView], limit=PAGE_LIMIT)


def create_tenant_key(tenant_id: str, spec: KeySpec) -> Call[NewKey]:
    """A new key for a tenant (admin)."""
    return create(place("tenants", tenant_id, "keys"), NewKey, spec)


def revoke_tenant_key(tenant_id: str, key_id: str) -> Call[None]:
    """End a tenant's key, at once (admin)."""
    return delete(place("tenants", tenant_id, "keys", key_id))
