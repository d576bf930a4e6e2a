"""The lives of a job and of an attempt: one table each, and one function each."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from domain.errors import InvalidTransition


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    HELD = "held"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can change it any more."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)

    @property
    def sentence(self) -> str:
        """What is told of a job that comes to this state."""
        verb = "was" if self is JobState.CANCELLED else "is"
        return f"the job {self}" if self in (JobState.SUCCEEDED, JobState.FAILED) else f"the job {verb} {self}"


class JobEvent(StrEnum):
    """What can happen to a job."""

    ASSIGN = "assign"
    HOLD = "hold"
    RELEASE = "release"
    CANCEL = "cancel"
    SUCCEED = "succeed"
    FAIL = "fail"
    REQUEUE = "requeue"


class AttemptState(StrEnum):
    """Where an attempt stands."""

    ASSIGNED = "assigned"
    PREPARING = "preparing"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"

    @property
    def is_live(self) -> bool:
        """Whether it still holds its devices."""
        return self is not AttemptState.ENDED


class AttemptEvent(StrEnum):
    """What can happen to an attempt."""

    CLAIM = "claim"
    START = "start"
    STOP = "stop"
    END = "end"


JOB_TRANSITIONS: Mapping[tuple[JobState, JobEvent], JobState] = MappingProxyType(
    {
        (JobState.QUEUED, JobEvent.ASSIGN): JobState.RUNNING,
        (JobState.QUEUED, JobEvent.HOLD): JobState.HELD,
        (JobState.QUEUED, JobEvent.CANCEL): JobState.CANCELLED,
        (JobState.QUEUED, JobEvent.FAIL): JobState.FAILED,
        (JobState.HELD, JobEvent.HOLD): JobState.HELD,
        (JobState.HELD, JobEvent.RELEASE): JobState.QUEUED,
        (JobState.HELD, JobEvent.CANCEL): JobState.CANCELLED,
        (JobState.RUNNING, JobEvent.SUCCEED): JobState.SUCCEEDED,
        (JobState.RUNNING, JobEvent.FAIL): JobState.FAILED,
        (JobState.RUNNING, JobEvent.CANCEL): JobState.CANCELLED,
        (JobState.RUNNING, JobEvent.REQUEUE): JobState.QUEUED,
        (JobState.RUNNING, JobEvent.HOLD): JobState.HELD,
    }
)

ATTEMPT_TRANSITIONS: Mapping[tuple[AttemptState, AttemptEvent], AttemptState] = MappingProxyType(
    {
        (AttemptState.ASSIGNED, AttemptEvent.CLAIM): AttemptState.PREPARING,
        (AttemptState.ASSIGNED, AttemptEvent.END): AttemptState.ENDED,
        (AttemptState.PREPARING, AttemptEvent.START): AttemptState.RUNNING,
        (AttemptState.PREPARING, AttemptEvent.STOP): AttemptState.STOPPING,
        (AttemptState.PREPARING, AttemptEvent.END): AttemptState.ENDED,
        (AttemptState.RUNNING, AttemptEvent.STOP): AttemptState.STOPPING,
        (AttemptState.RUNNING, AttemptEvent.END): AttemptState.ENDED,
        (AttemptState.STOPPING, AttemptEvent.STOP): AttemptState.STOPPING,
        (AttemptState.STOPPING, AttemptEvent.END): AttemptState.ENDED,
    }
)


def next_job_state(state: JobState, event: JobEvent) -> JobState:
    """Where `event` takes a job in `state`.

    Raises:
        InvalidTransition: the table has no such row.
    """
    try:
        return JOB_TRANSITIONS[state, event]
    except KeyError:
        raise InvalidTransition("job", state, event) from None


def next_attempt_state(state: AttemptState, event: AttemptEvent) -> AttemptState:
    """Where `event` takes an attempt in `state`.

    Raises:
        InvalidTransition: the table has no such row.
    """
    try:
        return ATTEMPT_TRANSITIONS[state, event]
    except KeyError:
        raise InvalidTransition("attempt", state, event) from None
