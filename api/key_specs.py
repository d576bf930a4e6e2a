"""From a key as the contract has it to the rights that it asks for."""

from corral.identity import KeySpec

from domain.budget import GPU_HOUR_US
from domain.errors import Invalid
from domain.ids import TenantId
from domain.purse import Unit
from domain.rights import AskedRights
from domain.roles import Role
from domain.scheduling.snapshot import WHOLE_GPU


def asked_rights(spec: KeySpec, tenant_id: TenantId | None, scopes: frozenset[str]) -> AskedRights:
    """The same, in the rules' words.

    Raises:
        Invalid: it names a scope that is none of `scopes`.
    """
    if unknown := sorted(set(spec.scopes or ()) - scopes):
        raise Invalid(f"there is no scope {', '.join(unknown)}", f"there are: {', '.join(sorted(scopes))}")
    return AskedRights(
        None if spec.role is None else Role(spec.role),
        tenant_id,
        None if spec.scopes is None else frozenset(spec.scopes),
        None if spec.images is None else tuple(spec.images),
        None if spec.isolation_levels is None else tuple(spec.isolation_levels),
        spec.own_jobs_only,
        spec.expires_at,
    )


def totals(spec: KeySpec) -> dict[Unit, int]:
    """What its jobs may hold at once, use and cost in all."""
    said = {
        Unit.GPUS_MILLI: None if spec.gpus is None else spec.gpus * WHOLE_GPU,
        Unit.GPU_TIME: None if spec.gpu_hours is None else spec.gpu_hours * GPU_HOUR_US,
        Unit.MONEY: spec.money_micro,
    }
    return {unit: bound for unit, bound in said.items() if bound is not None}
