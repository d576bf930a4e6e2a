"""What an allocation's time costs, in whole numbers: every sum is exact."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from domain.endings import Outcome
from domain.scheduling.snapshot import WHOLE_GPU

HOUR_US = 3_600_000_000
"""Microseconds in an hour."""
GPU_HOUR = HOUR_US * WHOLE_GPU
"""A GPU-hour in microseconds times thousandths of a GPU, the ledger's own unit."""
FULL_MILLI = 1000
"""A rate is per mille of the price; this is all of it."""
HOURS_DIGITS = 15
"""Decimals of a text of GPU-hours: one unit is 2.8e-13 of an hour, so that the whole number can be read back."""


class Cause(StrEnum):
    """What an interval of an allocation was spent on."""

    PREPARING = "preparing"
    RUNNING = "running"
    STOPPING = "stopping"
    PLATFORM_FAULT = "platform_fault"
    """Recorded and not charged."""

    @property
    def is_charged(self) -> bool:
        """Whether the tenant pays for it."""
        return self is not Cause.PLATFORM_FAULT


Rates = Mapping[Cause, int]
"""What part of the price each cause pays, per mille; all of it where nothing is said."""
FULL_RATES: Rates = {}


class EntryKind(StrEnum):
    """What a line of the ledger is."""

    USAGE = "usage"
    """Time that passed: never negative."""
    CORRECTION = "correction"
    """Signed: takes back, or adds to, what was posted before."""
    ADJUSTMENT = "adjustment"
    """Money alone, credited (negative) or debited by an admin, and signed by the server's key."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of an allocation with one cause, in microseconds since the allocation opened."""

    cause: Cause
    from_us: int
    until_us: int

    @property
    def duration_us(self) -> int:
        """How long it lasted."""
        return self.until_us - self.from_us


@dataclass(frozen=True, slots=True)
class Posted:
    """The sum of what the ledger already holds of an allocation, for one cause."""

    duration_us: int
    cost_micro: int


@dataclass(frozen=True, slots=True)
class Posting:
    """A line to be written to the ledger."""

    kind: EntryKind
    cause: Cause
    duration_us: int
    cost_micro: int


NOTHING = Posted(0, 0)


def rate_milli(cause: Cause, rates: Rates) -> int:
    """What part of the price the cause pays, per mille. The platform's faults are free, whatever the rates say."""
    return rates.get(cause, FULL_MILLI) if cause.is_charged else 0


def dearest_micro(price_micro_per_gpu_hour: int, rates: Rates) -> int:
    """The most that a GPU-hour can cost at this price, whatever it is spent on."""
    rate = max(rate_milli(cause, rates) for cause in Cause)
    return -(-price_micro_per_gpu_hour * rate // FULL_MILLI)


def cost_micro(duration_us: int, share_milli: int, price_micro_per_gpu_hour: int, rate: int = FULL_MILLI) -> int:
    """What so long a hold costs in all, in millionths of the currency; what is less than one of these is dropped.

    Rounding happens once, on the whole of an allocation's time for a cause: a part costs the difference of two wholes.

    Raises:
        ValueError: an argument is negative.
    """
    if min(duration_us, share_milli, price_micro_per_gpu_hour, rate) < 0:
        raise ValueError("a duration, a share, a price or a rate is negative")
    return duration_us * share_milli * price_micro_per_gpu_hour * rate // (GPU_HOUR * FULL_MILLI)


def gpu_hours_text(gpu_us_milli: int) -> str:
    """GPU-hours as a decimal with every digit, without an exponent.

    Exact wherever the decimal ends (it does if the number divides by nine). Where it never ends, it is rounded half to
    even after `HOURS_DIGITS` decimals, from which the whole number can be read back.
    """
    scaled, rest = divmod(abs(gpu_us_milli) * 10**HOURS_DIGITS, GPU_HOUR)
    if 2 * rest > GPU_HOUR or (2 * rest == GPU_HOUR and scaled % 2):
        scaled += 1
    hours, decimals = divmod(scaled, 10**HOURS_DIGITS)
    text = f"{hours}.{decimals:0{HOURS_DIGITS}d}".rstrip("0").rstrip(".")
    return f"-{text}" if gpu_us_milli < 0 else text


def intervals(outcome: Outcome, prepare_us: int, run_us: int, stop_us: int, fault_us: int = 0) -> tuple[Interval, ...]:
    """The stretches of an ended attempt's allocation, one after the other; those of no length are left out.

    `prepare_us` counts from the assignment to the gate's opening, `run_us` from there to the stop order or the exit,
    `stop_us` from there to the release, but for `fault_us` at its end, which the platform lost. A refused image is not
    charged either: nothing of the job ran.

    Raises:
        ValueError: a duration is negative.
    """
    parts = zip((*_causes(outcome), Cause.PLATFORM_FAULT), (prepare_us, run_us, stop_us, fault_us), strict=True)
    made: list[Interval] = []
    until_us = 0
    for cause, duration_us in parts:
        if duration_us < 0:
            raise ValueError(f"the time {cause} is negative")
        from_us, until_us = until_us, until_us + duration_us
        if made and made[-1].cause is cause:
            from_us = made.pop().from_us
        if until_us > from_us:
            made.append(Interval(cause, from_us, until_us))
    return tuple(made)


def durations(parts: Iterable[Interval]) -> Mapping[Cause, int]:
    """How long an allocation was held for each cause, in microseconds."""
    sums: dict[Cause, int] = {}
    for part in parts:
        sums[part.cause] = sums.get(part.cause, 0) + part.duration_us
    return sums


def settle(
    final_us: Mapping[Cause, int],
    posted: Mapping[Cause, Posted],
    share_milli: int,
    price_micro_per_gpu_hour: int,
    rates: Rates = FULL_RATES,
) -> tuple[Posting, ...]:
    """The lines that bring an allocation's postings to what it really lasted and costs; none if they are there already.

    It serves a partial posting as well: the durations so far are final then. Afterwards, for each cause, the sum of
    the durations is `final_us` and the sum of the costs is `cost_micro` of it, whatever was posted before.

    Raises:
        ValueError: a final duration, the share or the price is negative.
    """
    lines: list[Posting] = []
    for cause in Cause:
        rate = rate_milli(cause, rates)
        was, duration_us = posted.get(cause, NOTHING), final_us.get(cause, 0)
        more_us = duration_us - was.duration_us
        more_micro = cost_micro(duration_us, share_milli, price_micro_per_gpu_hour, rate) - was.cost_micro
        if more_us or more_micro:
            # Time that passed may never lower a sum: what does is a correction, and so is a cost without time.
            is_usage = more_us > 0 and more_micro >= 0
            kind = EntryKind.USAGE if is_usage else EntryKind.CORRECTION
            lines.append(Posting(kind, cause, more_us, more_micro))
    return tuple(lines)


def _causes(outcome: Outcome) -> tuple[Cause, Cause, Cause]:
    """The cause of each of the three parts: preparing, running, stopping."""
    if outcome.is_platform_fault or outcome is Outcome.IMAGE_ERROR:
        return (Cause.PLATFORM_FAULT, Cause.PLATFORM_FAULT, Cause.PLATFORM_FAULT)
    stopping = Cause.PLATFORM_FAULT if outcome is Outcome.PREEMPTED else Cause.STOPPING
    return (Cause.PREPARING, Cause.RUNNING, stopping)
