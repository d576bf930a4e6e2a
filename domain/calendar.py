"""Hours, days, weeks and months of a time zone, as stretches of microseconds; and what is spread over them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Literal

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
US = timedelta(microseconds=1)
HOUR_US = 3_600_000_000
ONE_DAY = timedelta(days=1)
PeriodUnit = Literal["hour", "day", "week", "month"]


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """A stretch of time that people have a name for."""

    from_us: int
    until_us: int
    name: str
    """`2026-10-25T02:00+02:00`, `2026-10-25`, `2026-W43` or `2026-10`."""


@dataclass(frozen=True, slots=True)
class Part:
    """What falls into one period of something that lasted longer."""

    period: Period
    from_us: int
    until_us: int
    amounts: tuple[int, ...]


class Calendar:
    """The periods of one length in one time zone. Together they cover all of time, and none overlaps another."""

    def __init__(self, unit: PeriodUnit, zone: tzinfo) -> None:
        self._unit = unit
        self._zone = zone
        self._latest = Period(0, 0, "")

    def period(self, at_us: int) -> Period:
        """The period that holds this moment."""
        if not self._latest.from_us <= at_us < self._latest.until_us:  # entries come in the order of time, mostly
            self._latest = self._hour(at_us) if self._unit == "hour" else self._days(at_us)
        return self._latest

    def parts(self, span: tuple[int, int], window: tuple[int, int], amounts: Sequence[int]) -> Iterator[Part]:
        """What lasted over `span`, cut at the periods' ends, as far as it lies inside `window`.

        Each part of an amount is the difference of two wholes, rounded down: so the parts add up to the amount, over
        whatever periods and over windows that meet. What lasted no time falls into its moment's period, whole.
        """
        if span[0] == span[1]:
            if window[0] <= span[0] < window[1]:
                yield Part(self.period(span[0]), *span, tuple(amounts))
            return
        begin, end = max(span[0], window[0]), min(span[1], window[1])
        while begin < end:
            period = self.period(begin)
            stop = min(end, period.until_us)
            shares = tuple(amount_until(each, span, stop) - amount_until(each, span, begin) for each in amounts)
            yield Part(period, begin, stop, shares)
            begin = stop

    def _hour(self, at_us: int) -> Period:
        """An hour of the wall clock. A change of the offset inside of one ends it, and the rest is one of its own."""
        offset_us = self._offset_us(at_us)
        start = at_us - (at_us + offset_us) % HOUR_US
        until = start + HOUR_US
        if self._offset_us(start) != offset_us:
            start = self._change(start, at_us)
        if self._offset_us(until - 1) != offset_us:
            until = self._change(at_us, until - 1)
        return Period(start, until, self._local(start).isoformat(timespec="minutes"))

    def _days(self, at_us: int) -> Period:
        """Days are told by their midnights: a clock that goes back over one does not bring the day before back."""
        day = self._local(at_us).date()
        while at_us < self._midnight(day):
            day -= ONE_DAY
        while at_us >= self._midnight(day + ONE_DAY):
            day += ONE_DAY
        first, following, name = _bounds(day, self._unit)
        return Period(self._midnight(first), self._midnight(following), name)

    def _midnight(self, day: date) -> int:
        """The day's first moment; where clocks skip midnight, that at which they do."""
        return (datetime(day.year, day.month, day.day, tzinfo=self._zone).astimezone(UTC) - EPOCH) // US

    def _change(self, before_us: int, after_us: int) -> int:
        """The first moment with the offset of `after_us`, between two that have not the same."""
        offset_us = self._offset_us(after_us)
        while after_us - before_us > 1:
            middle = (before_us + after_us) // 2
            if self._offset_us(middle) == offset_us:
                after_us = middle
            else:
                before_us = middle
        return after_us

    def _offset_us(self, at_us: int) -> int:
        return (self._local(at_us).utcoffset() or timedelta()) // US

    def _local(self, at_us: int) -> datetime:
        return (EPOCH + timedelta(microseconds=at_us)).astimezone(self._zone)


def amount_until(amount: int, span: tuple[int, int], at_us: int) -> int:
    """How much of an amount, spread evenly over `span`, falls before a moment of it; rounded down."""
    return amount * (at_us - span[0]) // (span[1] - span[0])


def _bounds(day: date, unit: PeriodUnit) -> tuple[date, date, str]:
    """The first day of the period that holds the day, the one after its last, and its name."""
    if unit == "day":
        return day, day + ONE_DAY, day.isoformat()
    if unit == "week":
        year, week, weekday = day.isocalendar()
        monday = day - (weekday - 1) * ONE_DAY
        return monday, monday + 7 * ONE_DAY, f"{year}-W{week:02d}"
    first = day.replace(day=1)
    return first, (first + 31 * ONE_DAY).replace(day=1), f"{first:%Y-%m}"
