"""What a worker is to do with a sandbox that it named in a heartbeat."""

from dataclasses import dataclass
from enum import StrEnum

from domain.ids import AttemptId, Fence
from domain.states import AttemptState


class Word(StrEnum):
    """The three things that a worker can be told."""

    KEEP = "keep"
    STOP = "stop"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Named:
    """A sandbox as the worker named it."""

    attempt_id: AttemptId
    fence: Fence


@dataclass(frozen=True, slots=True)
class Known:
    """What the database knows of the attempt that was named."""

    state: AttemptState
    fence: Fence
    """The job's, which is newer than the attempt's own once the job was assigned again."""
    stop_reason: str | None
    """Why it was told to stop; None while nobody did."""
    is_on_this_node: bool
    """Whether the attempt was assigned to the node that asks."""


@dataclass(frozen=True, slots=True)
class SandboxVerdict:
    """The answer for one sandbox."""

    word: Word
    reason: str = ""
    """For `stop`: the stop reason, as the runner knows them."""


KEEP = SandboxVerdict(Word.KEEP)
REMOVE = SandboxVerdict(Word.REMOVE)
UNEXPLAINED_STOP = "removed"
"""The stop reason sent for an attempt that stops without one of its own."""


def verdict(named: Named, known: Known | None) -> SandboxVerdict:
    """Keep, stop or remove; keep wherever the database may be what is behind.

    Of an attempt of another node nothing is told: the node hears what it would hear of one that is unknown.
    """
    if known is None or not known.is_on_this_node:
        return KEEP
    if named.fence > known.fence:
        # an answer computed before the assignment, or a database restored from before it
        return KEEP
    if known.state is AttemptState.ENDED:
        return REMOVE
    if known.state is AttemptState.STOPPING:
        return SandboxVerdict(Word.STOP, known.stop_reason or UNEXPLAINED_STOP)
    return KEEP
