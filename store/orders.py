"""What is asked for when jobs are submitted, and what comes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.dependencies import Condition
from domain.ids import Instant, TenantId
from domain.levels import Level
from domain.rights import NOBODY, Author


@dataclass(frozen=True, slots=True)
class After:
    """What a job waits for."""

    of: str
    """A job's id, an array's, or `#` and the name of a job before it in the same order."""
    condition: Condition


@dataclass(frozen=True, slots=True)
class ArrayWish:
    """So many jobs instead of one, told apart by an index."""

    count: int
    first: int
    step: int
    most_running: int | None


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as it was asked for. None stands for the tenant's default."""

    name: str | None
    spec: Mapping[str, Any]
    """As sent, normalised."""
    image: str
    least_level: Level | None
    priority: int
    time_limit_us: int | None
    grace_us: int
    max_unreachable_us: int | None
    gpus: int
    models: Sequence[str]
    gpu_memory_min_bytes: int
    cpus_milli: int
    memory_bytes: int
    shm_bytes: int
    scratch_bytes: int
    output_bytes: int
    retry_limit: int
    retry_on: Sequence[str]
    inputs: Sequence[str]
    after: Sequence[After] = ()
    not_before_us: int = 0
    """Earliest start; 0 for at once."""
    delay_us: int = 0
    """The same, counted from the submission."""
    array: ArrayWish | None = None
    template: tuple[str, int] | None = None
    """Name and version of the template that it was made from."""

    @property
    def count(self) -> int:
        """How many jobs it makes."""
        return 1 if self.array is None else self.array.count


@dataclass(frozen=True, slots=True)
class Order:
    """Jobs of one tenant that are queued all together, or not at all."""

    tenant_id: TenantId
    jobs: Sequence[Submission]
    author: Author = NOBODY

    @property
    def count(self) -> int:
        """How many jobs it makes."""
        return sum(job.count for job in self.jobs)


@dataclass(frozen=True, slots=True)
class Queued:
    """What became of one submission: a job, or the first of an array."""

    job_id: str
    tenant_id: TenantId
    submitted_us: Instant
    waits_for: int = 0
    array_id: str | None = None
    job_ids: Sequence[str] = field(default=())
    """All of its jobs, by their index."""
