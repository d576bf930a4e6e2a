"""What an attempt's end means for its job: the whole table."""

import pytest

from domain.endings import (
    BACK_OFF_MOST_US,
    BACK_OFF_US,
    FREE_RETRIES,
    PLATFORM_FAULTS,
    PLATFORM_TRIES,
    TENANT_RETRIES,
    Outcome,
    RetryRule,
    Tries,
    Verdict,
    after,
)
from domain.states import JOB_TRANSITIONS, JobEvent, JobState

NO_RETRY = RetryRule(0, frozenset())
ALL_RETRIES = RetryRule(2, frozenset({"platform", "preempted", "failure", "oom", "time_limit"}))
SUCCEED, FAIL, REQUEUE = Verdict(JobEvent.SUCCEED, 0), Verdict(JobEvent.FAIL, 0), Verdict(JobEvent.REQUEUE, 0)
FIRST = Tries(by_tenant=1, by_platform=0)


def retry(*on: str, limit: int = 1) -> RetryRule:
    return RetryRule(limit, frozenset(on))


@pytest.mark.parametrize(
    ("outcome", "exit_code", "rule", "expected"),
    [
        (Outcome.EXITED, 0, NO_RETRY, SUCCEED),
        (Outcome.EXITED, 0, ALL_RETRIES, SUCCEED),
        (Outcome.EXITED, 1, NO_RETRY, FAIL),
        (Outcome.EXITED, 1, retry("failure"), REQUEUE),
        (Outcome.EXITED, None, retry("failure"), REQUEUE),
        (Outcome.EXITED, 75, retry("exit:75"), REQUEUE),
        (Outcome.EXITED, 76, retry("exit:75"), FAIL),
        (Outcome.EXITED, 1, retry("oom", "time_limit", "platform"), FAIL),
        (Outcome.OOM_KILLED, 137, NO_RETRY, FAIL),
        (Outcome.OOM_KILLED, 137, retry("oom"), REQUEUE),
        (Outcome.OOM_KILLED, 137, retry("failure", "exit:137"), FAIL),
        (Outcome.TIME_LIMIT, 143, NO_RETRY, FAIL),
        (Outcome.TIME_LIMIT, 143, retry("time_limit"), REQUEUE),
        (Outcome.CANCELLED, 143, ALL_RETRIES, Verdict(JobEvent.CANCEL, 0)),
        (Outcome.BUDGET_EXHAUSTED, 143, ALL_RETRIES, Verdict(JobEvent.HOLD, 0)),
        (Outcome.IMAGE_ERROR, None, ALL_RETRIES, FAIL),
        (Outcome.INPUT_ERROR, None, ALL_RETRIES, FAIL),
        (Outcome.PREEMPTED, 143, NO_RETRY, REQUEUE),
        (Outcome.UNCLAIMED, None, NO_RETRY, REQUEUE),
        (Outcome.SUPERSEDED, None, NO_RETRY, REQUEUE),
    ],
)
def test_what_becomes_of_the_job(outcome: Outcome, exit_code: int | None, rule: RetryRule, expected: Verdict) -> None:
    assert after(outcome, exit_code, rule, FIRST) == expected


@pytest.mark.parametrize("outcome", [Outcome.NODE_LOST, Outcome.GPU_FAULT, Outcome.SANDBOX_ERROR])
def test_a_fault_of_the_platform_is_tried_again_with_back_off_and_not_for_ever(outcome: Outcome) -> None:
    waits = [after(outcome, None, NO_RETRY, Tries(0, by_platform)) for by_platform in range(1, PLATFORM_TRIES)]
    assert waits == [Verdict(JobEvent.REQUEUE, BACK_OFF_US * 2**i) for i in range(PLATFORM_TRIES - 1)]
    assert after(outcome, None, NO_RETRY, Tries(0, PLATFORM_TRIES)) == FAIL
    assert all(verdict.wait_us <= BACK_OFF_MOST_US for verdict in waits)


@pytest.mark.parametrize("outcome", sorted(FREE_RETRIES))
def test_what_was_nobodys_fault_is_tried_again_without_limit(outcome: Outcome) -> None:
    assert after(outcome, None, NO_RETRY, Tries(99, 99)) == REQUEUE


def test_the_tenants_own_tries_are_limited_and_the_first_is_none() -> None:
    rule = retry("failure", limit=2)
    found = [after(Outcome.EXITED, 1, rule, Tries(by_tenant, 0)) for by_tenant in (1, 2, 3)]
    assert found == [REQUEUE, REQUEUE, FAIL]


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_moves_a_running_job(outcome: Outcome) -> None:
    for exit_code in (None, 0, 1):
        verdict = after(outcome, exit_code, ALL_RETRIES, Tries(1, 1))
        assert (JobState.RUNNING, verdict.event) in JOB_TRANSITIONS
        assert verdict.event is not JobEvent.SUCCEED or (outcome is Outcome.EXITED and exit_code == 0)


def test_each_outcome_is_the_platforms_or_the_tenants() -> None:
    assert not PLATFORM_FAULTS & TENANT_RETRIES
    assert {outcome for outcome in Outcome if outcome.is_platform_fault} == {
        Outcome.NODE_LOST,
        Outcome.GPU_FAULT,
        Outcome.SANDBOX_ERROR,
        Outcome.UNCLAIMED,
        Outcome.SUPERSEDED,
    }
