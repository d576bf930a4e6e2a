"""The lives of a job and of an attempt: the whole table, and what no table row may break."""

import itertools

import pytest

from domain.errors import InvalidTransition
from domain.states import (
    ATTEMPT_TRANSITIONS,
    JOB_TRANSITIONS,
    AttemptEvent,
    AttemptState,
    JobEvent,
    JobState,
    next_attempt_state,
    next_job_state,
)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(JobState, JobEvent)))
def test_every_pair_of_a_job_moves_or_is_refused(state: JobState, event: JobEvent) -> None:
    if (state, event) in JOB_TRANSITIONS:
        assert next_job_state(state, event) is JOB_TRANSITIONS[state, event]
    else:
        with pytest.raises(InvalidTransition, match=f"{event} does not fit a job that is {state}"):
            next_job_state(state, event)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(AttemptState, AttemptEvent)))
def test_every_pair_of_an_attempt_moves_or_is_refused(state: AttemptState, event: AttemptEvent) -> None:
    if (state, event) in ATTEMPT_TRANSITIONS:
        assert next_attempt_state(state, event) is ATTEMPT_TRANSITIONS[state, event]
    else:
        with pytest.raises(InvalidTransition, match=f"{event} does not fit an? attempt that is {state}"):
            next_attempt_state(state, event)


@pytest.mark.parametrize("event", JobEvent)
@pytest.mark.parametrize("state", [state for state in JobState if state.is_terminal])
def test_terminal_is_final(state: JobState, event: JobEvent) -> None:
    with pytest.raises(InvalidTransition):
        next_job_state(state, event)


@pytest.mark.parametrize("event", AttemptEvent)
def test_an_ended_attempt_stays_ended(event: AttemptEvent) -> None:
    with pytest.raises(InvalidTransition):
        next_attempt_state(AttemptState.ENDED, event)


@pytest.mark.parametrize("state", [state for state in JobState if not state.is_terminal])
def test_a_job_can_be_cancelled_in_every_state_that_is_not_terminal(state: JobState) -> None:
    assert next_job_state(state, JobEvent.CANCEL) is JobState.CANCELLED


@pytest.mark.parametrize("state", [state for state in AttemptState if state.is_live])
def test_an_attempt_can_end_in_every_state_and_only_then_is_it_no_longer_live(state: AttemptState) -> None:
    assert not next_attempt_state(state, AttemptEvent.END).is_live


def test_every_state_can_be_reached() -> None:
    assert {JobState.QUEUED, *JOB_TRANSITIONS.values()} == set(JobState)
    assert {AttemptState.ASSIGNED, *ATTEMPT_TRANSITIONS.values()} == set(AttemptState)


def test_only_a_queued_job_starts() -> None:
    assert [state for state, event in JOB_TRANSITIONS if event is JobEvent.ASSIGN] == [JobState.QUEUED]


def test_an_attempt_never_goes_back() -> None:
    order = list(AttemptState)
    assert all(order.index(after) >= order.index(before) for (before, _), after in ATTEMPT_TRANSITIONS.items())


def test_each_state_of_a_job_is_told_in_a_sentence() -> None:
    told = {state: state.sentence for state in JobState}
    assert told[JobState.SUCCEEDED] == "the job succeeded"
    assert told[JobState.CANCELLED] == "the job was cancelled"
    assert told[JobState.QUEUED] == "the job is queued"
