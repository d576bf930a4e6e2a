"""What a worker is told of a sandbox that it named: kept wherever the database may be what is behind."""

import itertools

import pytest

from domain.ids import AttemptId, Fence
from domain.states import AttemptState
from domain.verdicts import Known, Named, SandboxVerdict, Word, verdict

NAMED = Named(AttemptId("att_1"), Fence(5))


def known(state: AttemptState, fence: int = 5, reason: str | None = None, is_on_this_node: bool = True) -> Known:
    return Known(state, Fence(fence), reason, is_on_this_node)


def test_what_is_unknown_is_kept() -> None:
    """An empty or restored database must not kill everything."""
    assert verdict(NAMED, None).word is Word.KEEP


@pytest.mark.parametrize("state", AttemptState)
def test_a_newer_fence_than_is_known_is_kept(state: AttemptState) -> None:
    """An answer computed before an assignment must not kill what the assignment started."""
    assert verdict(NAMED, known(state, fence=4, reason="cancelled")).word is Word.KEEP


@pytest.mark.parametrize("fence", [5, 6])
def test_what_has_ended_is_removed_also_if_the_job_went_on(fence: int) -> None:
    assert verdict(NAMED, known(AttemptState.ENDED, fence)).word is Word.REMOVE


def test_what_is_told_to_stop_hears_why() -> None:
    assert verdict(NAMED, known(AttemptState.STOPPING, reason="preempted")) == SandboxVerdict(Word.STOP, "preempted")
    assert verdict(NAMED, known(AttemptState.STOPPING)).reason == "removed"


@pytest.mark.parametrize("state", [AttemptState.ASSIGNED, AttemptState.PREPARING, AttemptState.RUNNING])
def test_what_lives_is_kept(state: AttemptState) -> None:
    assert verdict(NAMED, known(state)) == SandboxVerdict(Word.KEEP)


@pytest.mark.parametrize(("state", "fence"), list(itertools.product(AttemptState, [4, 5, 6])))
def test_a_node_hears_of_another_nodes_attempt_what_it_hears_of_an_unknown_one(state: AttemptState, fence: int) -> None:
    foreign = known(state, fence, "cancelled", is_on_this_node=False)
    assert verdict(NAMED, foreign) == verdict(NAMED, None)
