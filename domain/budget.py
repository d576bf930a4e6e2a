"""What may be spent, is held and is spent: the arithmetic of purses, in whole numbers.

A purse has a bound. At an assignment the most that the attempt can use is held in it; what is posted moves from held to
spent; what was not used is let go at the end. A month is a calendar month in UTC, and time belongs to the month in
which it lies.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from domain.money import GPU_HOUR, HOUR_US, Cause
from domain.purse import TOTAL, Place, Unit
from domain.scheduling.snapshot import WHOLE_GPU

MOST = 2**62
"""The largest bound, so that bound, held and spent can be added in 64 bits."""
GPU_HOUR_US = HOUR_US
"""A GPU-hour in the unit `gpu_time`."""
MARGIN_US = 300_000_000
"""Held beyond the time limit and the grace: for preparing, killing and collecting."""
MONTHS_AHEAD = 24
"""No attempt is counted in more months than these."""
ROUNDING_MICRO = 3
"""Held more for a device in each month of several: a line of the ledger that is cut there is rounded once a cause."""
THRESHOLDS = (50, 80, 100)
"""Percent of a bound at which its owner is warned, once each."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a line of the ledger says, as far as purses care."""

    cause: Cause
    from_us: int
    until_us: int
    duration_us: int
    share_milli: int
    cost_micro: int


def month_of(at_us: int) -> str:
    """The calendar month, UTC: `2026-01`."""
    return f"{_moment(at_us):%Y-%m}"


def month_start(at_us: int) -> int:
    """When the month of this instant began, UTC."""
    return _us(_moment(at_us).replace(day=1, hour=0, minute=0, second=0, microsecond=0))


def month_end(at_us: int) -> int:
    """When the month of this instant ends, UTC: the first instant of the next."""
    start = _moment(month_start(at_us))
    return _us((start + timedelta(days=32)).replace(day=1))


def month_first(month: str) -> int:
    """When a month, such as `2026-01`, began, UTC."""
    return _us(datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC))


def by_month(from_us: int, until_us: int, amount: int) -> Mapping[str, int]:
    """The amount, cut where a month ends. Each part is a difference of wholes, so that they add up to it.

    What lies beyond `MONTHS_AHEAD` months counts in the last of them.
    """
    span = until_us - from_us
    if span <= 0 or month_end(from_us) >= until_us:
        return {month_of(from_us): amount}
    parts: dict[str, int] = {}
    begin = from_us
    while begin < until_us:
        is_last = len(parts) + 1 == MONTHS_AHEAD
        end = until_us if is_last else min(until_us, month_end(begin))
        parts[month_of(begin)] = amount * (end - from_us) // span - amount * (begin - from_us) // span
        begin = end
    return parts


def longest_us(time_limit_us: int, grace_us: int) -> int:
    """The longest that an attempt can hold its devices, if it prepares and ends within the margin."""
    return time_limit_us + grace_us + MARGIN_US


def most(prices_micro_per_gpu_hour: Sequence[int], from_us: int, for_us: int) -> Mapping[Place, int]:
    """The most that an attempt can use of each purse, on whole devices with these prices; nothing where it is 0."""
    gpus = len(prices_micro_per_gpu_hour)
    amounts: dict[Place, int] = {
        (Unit.GPUS_MILLI, TOTAL): gpus * WHOLE_GPU,
        (Unit.GPU_TIME, TOTAL): gpus * for_us,
        (Unit.MONEY, TOTAL): _cost(prices_micro_per_gpu_hour, for_us),
    }
    months = _month_lengths(from_us, for_us)
    charged = sum(price > 0 for price in prices_micro_per_gpu_hour)
    rounding = charged * ROUNDING_MICRO if len(months) > 1 else 0
    for month, length_us in months.items():
        amounts[Unit.GPU_TIME, month] = gpus * length_us
        amounts[Unit.MONEY, month] = _cost(prices_micro_per_gpu_hour, length_us) + rounding
    return {place: min(amount, MOST) for place, amount in amounts.items() if amount}


def used(lines: Iterable[Line]) -> Mapping[Place, int]:
    """What lines of the ledger take from each purse; a correction gives back. Faults of the platform take nothing."""
    amounts: Counter[Place] = Counter()
    for line in lines:
        for unit in (Unit.GPU_TIME, Unit.MONEY):
            amount = amount_of(line, unit)
            for month, part in by_month(line.from_us, line.until_us, amount).items():
                amounts[unit, TOTAL] += part
                amounts[unit, month] += part
    return {place: amount for place, amount in amounts.items() if amount}


def amount_of(line: Line, unit: Unit) -> int:
    """What a line takes, or gives back."""
    if unit is Unit.MONEY:
        return line.cost_micro
    # cut towards zero, as the database divides: a line that takes another back gives the same
    size = abs(line.duration_us) * line.share_milli // WHOLE_GPU if line.cause.is_charged else 0
    return -size if line.duration_us < 0 else size


def part_between(line: Line, unit: Unit, from_us: int, until_us: int) -> int:
    """What of a line that lasts lies between two instants, cut as `by_month` cuts."""
    amount, span = amount_of(line, unit), line.until_us - line.from_us
    begin, end = max(line.from_us, from_us), min(line.until_us, until_us)
    return amount * (end - line.from_us) // span - amount * (begin - line.from_us) // span


def reached(spent: int, bound: int) -> int:
    """The highest threshold that is reached, in percent; 0 for none."""
    return max((each for each in THRESHOLDS if spent > 0 and spent * 100 >= bound * each), default=0)


def crossed(warned: int, spent: int, bound: int) -> tuple[int, ...]:
    """The thresholds that are reached and were not warned of."""
    return tuple(each for each in THRESHOLDS if warned < each <= reached(spent, bound))


def _month_lengths(from_us: int, for_us: int) -> Mapping[str, int]:
    lengths: dict[str, int] = {}
    begin, until_us = from_us, from_us + for_us
    while begin < until_us and len(lengths) < MONTHS_AHEAD:
        end = min(until_us, month_end(begin))
        lengths[month_of(begin)] = end - begin
        begin = end
    return lengths


def _cost(prices: Sequence[int], duration_us: int) -> int:
    """Rounded up, once for each device."""
    return sum(-(-duration_us * WHOLE_GPU * price // GPU_HOUR) for price in prices)


def _moment(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).replace(microsecond=at_us % 1_000_000)


def _us(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond
