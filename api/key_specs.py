"""From a key as the contract has it to the rights that it asks for."""

from corral.identity import KeySpec

from domain.ids import TenantId
from domain.rights import AskedRights
from domain.roles import Role


def asked_rights(spec: KeySpec, tenant_id: TenantId | None) -> AskedRights:
    """The same, in the rules' words."""
    return AskedRights(
        None if spec.role is None else Role(spec.role),
        tenant_id,
        None if spec.scopes is None else frozenset(spec.scopes),
        None if spec.images is None else tuple(spec.images),
        None if spec.isolation_levels is None else tuple(spec.isolation_levels),
        spec.own_jobs_only,
        spec.expires_at,
    )
