"""Requests about secrets."""

from corral.call import PAGE_LIMIT, Call, delete, get, place, put
from corral.contract import Page
from corral.secrets import SecretSpec, SecretView


def secrets(*, tenant_id: str | None = None) -> Call[Page[SecretView]]:
    """The secrets of the own tenant, or, for an admin, of any; without their values, which nobody is shown."""
    return get(place("secrets"), Page[SecretView], limit=PAGE_LIMIT, tenant_id=tenant_id)


def set_secret(name: str, value: bytes | str, *, tenant_id: str | None = None) -> Call[SecretView]:
    """Set a secret, or replace it: jobs that start from now on read the new value."""
    spec = SecretSpec.of(value) if isinstance(value, bytes) else SecretSpec(value=value)
    return put(place("secrets", name), SecretView, spec, tenant_id=tenant_id)


def delete_secret(name: str, *, tenant_id: str | None = None) -> Call[None]:
    """Delete a secret. A job that names it and has not started yet fails when it would."""
    return delete(place("secrets", name), tenant_id=tenant_id)
