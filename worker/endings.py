"""What the end of a sandbox means for its attempt: pure."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from corral.node import DeviceReport, Ended, EndOutcome, SkippedFile

from domain.ids import Fence
from sandbox.contract import Exit, Skipped, StopReason

ERROR_MAX = 2000
SKIPPED_MAX = 1000

STOPPED: Mapping[StopReason, EndOutcome] = MappingProxyType(
    {
        StopReason.TIME_LIMIT: "time_limit",
        StopReason.UNREACHABLE: "node_lost",
        StopReason.CANCELLED: "cancelled",
        StopReason.PREEMPTED: "preempted",
        StopReason.NODE_LOST: "node_lost",
        StopReason.BUDGET_EXHAUSTED: "budget_exhausted",
        StopReason.REMOVED: "cancelled",
    }
)
FAULTS: Mapping[str, EndOutcome] = MappingProxyType({"image_error": "image_error", "input_error": "input_error"})
"""By a fault's code; every other fault is the platform's."""
SAID: Mapping[StopReason, str] = MappingProxyType(
    {
        StopReason.UNREACHABLE: "its node could not reach the API for as long as the job allows",
        StopReason.NODE_LOST: "its node was declared lost",
        StopReason.TIME_LIMIT: "it ran into its time limit",
    }
)


def stop_reason(text: str | None) -> StopReason:
    """A reason as the API wrote it; one that this worker does not know stops a job all the same."""
    try:
        return StopReason(text or "")
    except ValueError:
        return StopReason.CANCELLED


def of_exit(end: Exit) -> dict[str, Any]:
    """The outcome of a sandbox that ended, as facts for the journal."""
    outcome, error = _judged(end)
    return {
        "outcome": outcome,
        "error": error,
        "exit_code": end.exit_code if end.is_gate_opened else None,
        "run_us": end.run_us if end.is_gate_opened else 0,
        "is_opened": end.is_gate_opened,
    }


def of_stop(reason: StopReason) -> dict[str, Any]:
    """The outcome of an attempt that was told to stop before its gate was opened."""
    return {
        "outcome": STOPPED[reason],
        "error": SAID.get(reason, ""),
        "exit_code": None,
        "run_us": 0,
        "is_opened": False,
    }


def of_fault(code: str, text: str, is_opened: bool, run_us: int) -> dict[str, Any]:
    """The outcome of an attempt that the sandbox, the image or an input failed."""
    return {
        "outcome": FAULTS.get(code, "sandbox_error"),
        "error": text or code,
        "exit_code": None,
        "run_us": run_us,
        "is_opened": is_opened,
    }


def blamed_on_device(facts: Mapping[str, Any], devices: Sequence[DeviceReport]) -> dict[str, Any]:
    """The same end, but a failure beside a device that fell sick is the device's."""
    sick = [device for device in devices if device.health == "sick"]
    if not sick or facts["outcome"] != "exited" or facts["exit_code"] == 0:
        return dict(facts)
    reason = "; ".join(f"{device.uuid} is sick: {device.health_reason}" for device in sick)
    return {**facts, "outcome": "gpu_fault", "error": reason}


def report(
    fence: Fence,
    facts: Mapping[str, Any],
    prepare_us: int,
    stop_us: int,
    fault_us: int,
    isolation: dict[str, Any] | None,
    skipped: Sequence[Skipped],
    devices: Sequence[DeviceReport],
) -> Ended:
    """The attempt's last word, within the bounds that the API sets."""
    listed = [SkippedFile(name=each.name, reason=each.reason) for each in skipped[:SKIPPED_MAX]]
    return Ended(
        fence=fence,
        outcome=facts["outcome"],
        exit_code=facts["exit_code"],
        error=facts["error"][:ERROR_MAX],
        prepare_us=max(0, prepare_us),
        run_us=max(0, facts["run_us"]),
        stop_us=max(0, stop_us),
        fault_us=max(0, fault_us),
        isolation=isolation,
        skipped=listed,
        devices=list(devices),
    )


def bare(full: Ended) -> Ended:
    """The same end without its trimmings, for an API that would not take them."""
    return full.model_copy(
        update={"isolation": None, "skipped": [], "error": full.error.encode("ascii", "replace").decode()[:200]}
    )


def _judged(end: Exit) -> tuple[EndOutcome, str]:
    if end.stop_reason is not None:
        return STOPPED[end.stop_reason], SAID.get(end.stop_reason, "")
    if not end.is_gate_opened:
        return "sandbox_error", end.error or "the sandbox ended before its gate was opened"
    if end.is_oom_killed and end.exit_code != 0:
        return "oom_killed", "it used more memory than it asked for"
    if end.exit_code is None:
        return "sandbox_error", end.error or "how the command ended was lost"
    return "exited", end.error
