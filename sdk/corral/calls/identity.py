"""Requests about keys and members, and whose key this is."""

from corral.call import PAGE_LIMIT, Call, act, create, delete, get, patch, place
from corral.contract import Page
from corral.identity import KeySpec, KeyView, LoginCode, MemberRole, MemberSpec, MemberView, NewKey, Role, Whoami


def whoami() -> Call[Whoami]:
    """Whose key this is."""
    return get(place("whoami"), Whoami)


def login_key(spec: LoginCode) -> Call[NewKey]:
    """The key of a login, for the code that the person was shown."""
    return act(place("login", "token"), NewKey, is_repeatable=False, body=spec)


def keys(*, tenant_id: str | None = None) -> Call[Page[KeyView]]:
    """The keys of the own tenant, or of one below it: all, or, for who does not rule it, the own ones."""
    return get(place("keys"), Page[KeyView], tenant_id=tenant_id, limit=PAGE_LIMIT)


def create_key(spec: KeySpec, *, tenant_id: str | None = None) -> Call[NewKey]:
    """A new key, of at most the own rights; its secret is in this answer and never again."""
    return create(place("keys"), NewKey, spec, tenant_id=tenant_id)


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


def members(*, tenant_id: str | None = None) -> Call[Page[MemberView]]:
    """The members of the own tenant, or of one below it; for an admin who names none, the platform's."""
    return get(place("members"), Page[MemberView], tenant_id=tenant_id, limit=PAGE_LIMIT)


def member(member_id: str) -> Call[MemberView]:
    """One member."""
    return get(place("members", member_id), MemberView)


def invite_member(spec: MemberSpec, *, tenant_id: str | None = None) -> Call[MemberView]:
    """Give a person a place, which waits for their first login."""
    return create(place("members"), MemberView, spec, tenant_id=tenant_id)


def set_member_role(member_id: str, role: Role) -> Call[MemberView]:
    """Give a member another role, at once."""
    return patch(place("members", member_id), MemberView, MemberRole(role=role))


def remove_member(member_id: str) -> Call[None]:
    """End a member's place, keys and logins, at once."""
    return delete(place("members", member_id))
