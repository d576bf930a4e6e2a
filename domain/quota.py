"""How quotas apply up the tenant tree: what is left, and which row of which tenant binds.

In a row (a model, or `*`) a tenant has a ceiling, which its use and that of all below it may not pass, and a kept part
of its guarantee, which it lends to nobody. What it claims of the tenant above is its use, what is kept for those below
it and not used by them, and its own kept part: the greater of the two sums. Nothing may be taken that lets the claims
on a tenant grow beyond its ceiling; so what is kept for a tenant is there for it whenever it wants it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from domain.ids import TenantId
from domain.levels import Level
from domain.scheduling.snapshot import ANY_MODEL, TenantShare

RUNNING = "running"
"""The row of a quota that counts running jobs."""


class Rights(Protocol):
    """A tenant's own rows of the quota and the use they bound: its own and that of all below it."""

    @property
    def tenant_id(self) -> TenantId: ...
    @property
    def gpu_limit_milli(self) -> Mapping[str, int | None]: ...
    @property
    def gpu_kept_milli(self) -> Mapping[str, int]: ...
    @property
    def gpu_used_milli(self) -> Mapping[str, int]: ...
    @property
    def gpu_reserved_milli(self) -> Mapping[str, int]: ...
    @property
    def running_limit(self) -> int | None: ...
    @property
    def running(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Bound:
    """One row of one tenant's quota, with its use."""

    tenant_id: TenantId
    steps_up: int
    """0 for the tenant itself, 1 for its parent, and so on."""
    row: str
    """A model, `*`, or `running`."""
    limit: int
    used: int
    reserved: int = 0
    """Kept for tenants below and not used by them."""
    own: int = 0
    """How much of that is kept for those on the way to who asks."""

    @property
    def left(self) -> int:
        """How much more is granted. Negative where a bound was lowered under its use."""
        return min(self.limit - self.used, self.own + max(0, self.limit - self.used - self.reserved))

    @property
    def is_reserved(self) -> bool:
        """Whether more would be left, were it not kept for others."""
        return self.left < self.limit - self.used


@dataclass(frozen=True, slots=True)
class Room:
    """What is left for a tenant, under all that bounds it."""

    binding: Bound | None
    """The row with the least left, the nearest to the tenant among equals; None: nothing bounds it."""

    def holds(self, asked: int) -> bool:
        """Whether so much more may be used."""
        return self.binding is None or asked <= self.binding.left


def room(path: Sequence[Rights], model: str | None = None) -> Room:
    """What is left of the GPUs of a model (thousandths), or of running jobs if no model is given.

    `path` holds the tenant, its parent, and so on up to the root. Every row on it applies.
    """
    bounds = _running_bounds(path) if model is None else _gpu_bounds(path, model)
    return Room(min(bounds, key=lambda bound: bound.left, default=None))


def path_of(tenants: Mapping[TenantId, TenantShare], tenant_id: TenantId) -> Iterator[TenantShare]:
    """The tenant, the one above it, and so on."""
    step: TenantId | None = tenant_id
    while step is not None:
        yield tenants[step]
        step = tenants[step].parent_id


def allowed_levels(path: Iterable[TenantShare]) -> frozenset[Level]:
    """What every quota from the tenant up to the root allows; one that names no levels allows all."""
    allowed = frozenset(Level)
    for share in path:
        if share.levels is not None:
            allowed &= share.levels
    return allowed


def claim(used: int, reserved: int, kept: int) -> int:
    """What a tenant claims of the one above it."""
    return max(used + reserved, kept)


def reservations(
    parents: Mapping[TenantId, TenantId | None], used: Mapping[TenantId, int], kept: Mapping[TenantId, int]
) -> dict[TenantId, int]:
    """In one row: what every tenant keeps for those below it that they do not use."""
    children: dict[TenantId, list[TenantId]] = {}
    for tenant_id, parent_id in parents.items():
        if parent_id is not None:
            children.setdefault(parent_id, []).append(tenant_id)
    reserved: dict[TenantId, int] = {}
    for tenant_id in _leaves_first(parents, children):
        claims = (
            claim(used.get(each, 0), reserved[each], kept.get(each, 0)) - used.get(each, 0)
            for each in children.get(tenant_id, ())
        )
        reserved[tenant_id] = sum(claims)
    return reserved


def _leaves_first(
    parents: Mapping[TenantId, TenantId | None], children: Mapping[TenantId, Sequence[TenantId]]
) -> Iterable[TenantId]:
    order = [tenant_id for tenant_id, parent_id in parents.items() if parent_id is None]
    for tenant_id in order:  # it grows as it is walked: each tenant comes after its parent
        order.extend(children.get(tenant_id, ()))
    return reversed(order)


def _gpu_bounds(path: Sequence[Rights], model: str) -> Iterator[Bound]:
    """The rows that bound a model: its own, and `*`. Nearest first, so that the nearest wins among equals."""
    own = dict.fromkeys((model, ANY_MODEL), 0)
    for steps_up, rights in enumerate(path):
        for row in own:
            used, reserved = rights.gpu_used_milli.get(row, 0), rights.gpu_reserved_milli.get(row, 0)
            # a missing row of a model bounds nothing; a missing `*` grants nothing
            limit = rights.gpu_limit_milli.get(row, 0 if row == ANY_MODEL else None)
            if limit is not None:
                yield Bound(rights.tenant_id, steps_up, row, limit, used, reserved, own[row])
            own[row] += max(0, rights.gpu_kept_milli.get(row, 0) - used - reserved)


def _running_bounds(path: Sequence[Rights]) -> Iterator[Bound]:
    """The limits of running jobs, nearest first."""
    for steps_up, rights in enumerate(path):
        if rights.running_limit is not None:
            yield Bound(rights.tenant_id, steps_up, RUNNING, rights.running_limit, rights.running)
