"""How quotas apply up the tenant tree: what is left, and which row of which tenant binds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from domain.ids import TenantId
from domain.scheduling.snapshot import ANY_MODEL

RUNNING = "running"
"""The row of a quota that counts running jobs."""


class Rights(Protocol):
    """A tenant's own rows of the quota and the use they bound: its own and that of all below it."""

    @property
    def tenant_id(self) -> TenantId: ...
    @property
    def gpu_limit_milli(self) -> Mapping[str, int | None]: ...
    @property
    def gpu_used_milli(self) -> Mapping[str, int]: ...
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

    @property
    def left(self) -> int:
        """How much more is granted. Negative where a bound was lowered under its use."""
        return self.limit - self.used


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


def _gpu_bounds(path: Sequence[Rights], model: str) -> Iterator[Bound]:
    """The rows that bound a model: its own, and `*`. Nearest first, so that the nearest wins among equals."""
    for steps_up, rights in enumerate(path):
        for row in dict.fromkeys((model, ANY_MODEL)):
            # a missing row of a model bounds nothing; a missing `*` grants nothing
            limit = rights.gpu_limit_milli.get(row, 0 if row == ANY_MODEL else None)
            if limit is not None:
                yield Bound(rights.tenant_id, steps_up, row, limit, rights.gpu_used_milli.get(row, 0))


def _running_bounds(path: Sequence[Rights]) -> Iterator[Bound]:
    """The limits of running jobs, nearest first."""
    for steps_up, rights in enumerate(path):
        if rights.running_limit is not None:
            yield Bound(rights.tenant_id, steps_up, RUNNING, rights.running_limit, rights.running)
