"""What a sandbox's end means for its attempt."""

from typing import Any

import pytest
from corral.node import DeviceReport, EndOutcome

from domain.endings import Outcome
from domain.ids import Fence
from sandbox.contract import Exit, Skipped, StopReason
from worker import endings


def an_exit(**changes: Any) -> Exit:
    facts: dict[str, Any] = {
        "exit_code": 0,
        "is_oom_killed": False,
        "stop_reason": None,
        "run_us": 5,
        "stop_us": 0,
        "error": "",
        "is_gate_opened": True,
    }
    return Exit(**facts | changes)


def a_device(health: str) -> DeviceReport:
    return DeviceReport(
        uuid="GPU-1",
        model="H100",
        memory_bytes=1,
        is_simulated=False,
        health=health,  # type: ignore[arg-type]
        health_reason="it fell off the bus" if health == "sick" else "",
        is_clean=True,
        generation=None,
    )


@pytest.mark.parametrize("code", range(256))
def test_every_exit_code_is_reported_as_it_was(code: int) -> None:
    facts = endings.of_exit(an_exit(exit_code=code))
    assert (facts["outcome"], facts["exit_code"]) == ("exited", code)


@pytest.mark.parametrize("reason", StopReason)
def test_who_was_told_to_stop_ends_by_that_reason_whatever_it_said_last(reason: StopReason) -> None:
    for code in (0, 143, None):
        outcome = endings.of_exit(an_exit(exit_code=code, stop_reason=reason))["outcome"]
        assert outcome == endings.STOPPED[reason]
    assert endings.of_stop(reason)["outcome"] == endings.STOPPED[reason]


def test_every_outcome_is_one_that_the_rules_know() -> None:
    assert {Outcome(outcome) for outcome in EndOutcome.__args__} <= set(Outcome)


def test_a_kill_for_memory_counts_when_the_command_fell_with_it() -> None:
    assert endings.of_exit(an_exit(is_oom_killed=True, exit_code=137))["outcome"] == "oom_killed"
    assert endings.of_exit(an_exit(is_oom_killed=True, exit_code=0))["outcome"] == "exited"


def test_a_lost_code_is_the_platforms_fault() -> None:
    assert endings.of_exit(an_exit(exit_code=None, error="gone"))["outcome"] == "sandbox_error"


def test_a_gate_that_never_opened_ran_nothing() -> None:
    facts = endings.of_exit(an_exit(is_gate_opened=False, exit_code=1, run_us=9))
    assert (facts["outcome"], facts["run_us"], facts["exit_code"]) == ("sandbox_error", 0, None)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("image_error", "image_error"),
        ("input_error", "input_error"),
        ("sandbox_error", "sandbox_error"),
        ("weaker_than_asked", "sandbox_error"),
        ("runner_away", "sandbox_error"),
    ],
)
def test_a_fault_is_the_tenants_or_the_platforms(code: str, outcome: str) -> None:
    assert endings.of_fault(code, "why", False, 0)["outcome"] == outcome


def test_a_failure_beside_a_sick_device_is_the_devices() -> None:
    failed, fine = endings.of_exit(an_exit(exit_code=1)), endings.of_exit(an_exit())
    assert endings.blamed_on_device(failed, [a_device("sick")])["outcome"] == "gpu_fault"
    assert endings.blamed_on_device(failed, [a_device("ok")])["outcome"] == "exited"
    assert endings.blamed_on_device(fine, [a_device("sick")])["outcome"] == "exited"


def test_an_unknown_stop_reason_stops_all_the_same() -> None:
    assert endings.stop_reason("of_the_future") is StopReason.CANCELLED
    assert endings.stop_reason(None) is StopReason.CANCELLED


def test_a_report_stays_within_its_bounds() -> None:
    facts = endings.of_fault("sandbox_error", "x" * 10_000, False, -5)
    report = endings.report(Fence(1), facts, -1, -1, -1, None, [Skipped("f", "r")] * 5_000, [])
    assert (report.prepare_us, report.run_us, report.stop_us) == (0, 0, 0)
    assert len(report.skipped) == 1_000
    assert len(report.error) == 2_000
    assert endings.bare(report).skipped == []
