"""How an attempt can end, who pays, and whether the job is tried again."""

from dataclasses import dataclass
from enum import StrEnum

from domain.states import JobEvent

PLATFORM_TRIES = 5
"""Most tries of a job that the platform's own faults ended (the design, section 4)."""
BACK_OFF_US = 2_000_000
"""Wait before the first retry after a platform fault; doubled for each one more, up to `BACK_OFF_MOST_US`."""
BACK_OFF_MOST_US = 300_000_000


class Outcome(StrEnum):
    """The one word with which an attempt ends."""

    EXITED = "exited"
    OOM_KILLED = "oom_killed"
    TIME_LIMIT = "time_limit"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    GPU_FAULT = "gpu_fault"
    IMAGE_ERROR = "image_error"
    SANDBOX_ERROR = "sandbox_error"
    INPUT_ERROR = "input_error"
    BUDGET_EXHAUSTED = "budget_exhausted"
    UNCLAIMED = "unclaimed"
    SUPERSEDED = "superseded"

    @property
    def is_platform_fault(self) -> bool:
        """Whether the platform failed: its time is recorded and not charged."""
        return self in PLATFORM_FAULTS


PLATFORM_FAULTS = frozenset(
    {Outcome.NODE_LOST, Outcome.GPU_FAULT, Outcome.SANDBOX_ERROR, Outcome.UNCLAIMED, Outcome.SUPERSEDED}
)
"""`image_error` is the tenant's here: the reference was refused. A failed pull is a `sandbox_error`."""

FREE_RETRIES = frozenset({Outcome.PREEMPTED, Outcome.UNCLAIMED, Outcome.SUPERSEDED})
"""Tried again without limit: nothing of the job's was at fault, and nothing of it ran to an end."""

NO_TRY = frozenset({Outcome.PREEMPTED, Outcome.BUDGET_EXHAUSTED})
"""Stopped by us while it ran well: no try of the tenant's is used up."""

TENANT_RETRIES = frozenset({Outcome.EXITED, Outcome.OOM_KILLED, Outcome.TIME_LIMIT})


@dataclass(frozen=True, slots=True)
class RetryRule:
    """What the job's `retry` says: `on` holds `platform`, `preempted`, `failure`, `oom`, `time_limit` or `exit:N`."""

    limit: int
    on: frozenset[str]

    def covers(self, outcome: Outcome, exit_code: int | None) -> bool:
        """Whether an attempt that ended so may be tried again, by the tenant's own wish."""
        if outcome is Outcome.EXITED:
            return exit_code != 0 and ("failure" in self.on or f"exit:{exit_code}" in self.on)
        return {Outcome.OOM_KILLED: "oom", Outcome.TIME_LIMIT: "time_limit"}.get(outcome, "") in self.on


@dataclass(frozen=True, slots=True)
class Tries:
    """How often the job was tried already, this attempt included."""

    by_tenant: int
    """Attempts that ended by the tenant's own doing."""
    by_platform: int
    """Attempts that a fault of the platform ended."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of the job after an attempt's end."""

    event: JobEvent
    wait_us: int
    """Time before it may be assigned again; 0 unless it is requeued after a fault."""


def after(outcome: Outcome, exit_code: int | None, rule: RetryRule, tries: Tries) -> Verdict:
    """What an attempt's end means for its job."""
    if outcome in (Outcome.CANCELLED, Outcome.BUDGET_EXHAUSTED):
        return Verdict(JobEvent.CANCEL if outcome is Outcome.CANCELLED else JobEvent.HOLD, 0)
    if outcome is Outcome.EXITED and exit_code == 0:
        return Verdict(JobEvent.SUCCEED, 0)
    if outcome in FREE_RETRIES:
        return Verdict(JobEvent.REQUEUE, 0)
    if outcome in PLATFORM_FAULTS and tries.by_platform < PLATFORM_TRIES:
        return Verdict(JobEvent.REQUEUE, min(BACK_OFF_US << (tries.by_platform - 1), BACK_OFF_MOST_US))
    if outcome in TENANT_RETRIES and rule.covers(outcome, exit_code) and tries.by_tenant <= rule.limit:
        return Verdict(JobEvent.REQUEUE, 0)
    return Verdict(JobEvent.FAIL, 0)
