"""Hours, days, weeks and months of any time zone: they cover all of time, and what is cut at their ends adds up."""

import itertools
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.calendar import HOUR_US, Calendar, PeriodUnit

ALL_OF_TIME = (-(2**62), 2**62)
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia")
UNITS: tuple[PeriodUnit, ...] = ("hour", "day", "week", "month")
moments_us = st.integers(1_250_000_000_000_000, 1_900_000_000_000_000)
units = st.sampled_from(UNITS)
zones = st.sampled_from(ZONES).map(ZoneInfo)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 10**6


@given(moments_us, units, zones)
def test_a_moment_lies_in_one_period_and_the_next_begins_where_it_ends(
    at_us: int, unit: PeriodUnit, zone: ZoneInfo
) -> None:
    period = Calendar(unit, zone).period(at_us)
    assert period.from_us <= at_us < period.until_us
    for inside in (period.from_us, period.until_us - 1):
        assert Calendar(unit, zone).period(inside) == period
    assert Calendar(unit, zone).period(period.until_us).from_us == period.until_us


@given(
    moments_us,
    st.integers(0, 40 * 86_400_000_000),
    st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=3),
    st.lists(moments_us, max_size=3),
    units,
    zones,
)
def test_what_is_cut_adds_up_over_periods_and_over_windows_that_meet(
    from_us: int, duration_us: int, amounts: list[int], cuts: list[int], unit: PeriodUnit, zone: ZoneInfo
) -> None:
    if unit == "hour":
        duration_us //= 20
    span = (from_us, from_us + duration_us)
    edges = [ALL_OF_TIME[0], *sorted(cuts), ALL_OF_TIME[1]]
    calendar = Calendar(unit, zone)
    parts = [part for window in itertools.pairwise(edges) for part in calendar.parts(span, window, amounts)]
    for place, amount in enumerate(amounts):
        assert sum(part.amounts[place] for part in parts) == amount
    assert sum(part.until_us - part.from_us for part in parts) == duration_us
    assert all(part.period.from_us <= part.from_us <= part.until_us <= part.period.until_us for part in parts)


def test_what_lasted_no_time_lies_in_the_window_of_its_moment_and_in_no_later_one() -> None:
    calendar, hour_us = Calendar("day", ZoneInfo("UTC")), 3_600_000_000
    windows = [(0, hour_us), (hour_us, 2 * hour_us), (2 * hour_us, 3 * hour_us)]
    found = [list(calendar.parts((hour_us, hour_us), window, [7])) for window in windows]
    assert [[part.amounts for part in parts] for parts in found] == [[], [(7,)], []]


@pytest.mark.parametrize(
    ("unit", "moment", "zone", "name", "hours"),
    [
        ("day", "2026-10-25T12:00+00:00", "Europe/Berlin", "2026-10-25", 25),
        ("day", "2026-03-29T12:00+00:00", "Europe/Berlin", "2026-03-29", 23),
        ("day", "2026-10-24T22:30+00:00", "Europe/Berlin", "2026-10-25", 25),
        ("month", "2026-10-31T23:30+00:00", "Europe/Berlin", "2026-11", 30 * 24),
        ("month", "2026-02-28T23:59+00:00", "UTC", "2026-02", 28 * 24),
        ("month", "2028-02-29T00:00+00:00", "UTC", "2028-02", 29 * 24),
        ("week", "2026-12-31T12:00+00:00", "UTC", "2026-W53", 7 * 24),
        ("week", "2026-10-22T12:00+00:00", "Europe/Berlin", "2026-W43", 7 * 24 + 1),
        ("hour", "2026-10-25T00:30+00:00", "Europe/Berlin", "2026-10-25T02:00+02:00", 1),
        ("hour", "2026-10-25T01:30+00:00", "Europe/Berlin", "2026-10-25T02:00+01:00", 1),
        ("hour", "2026-06-01T00:30+00:00", "Asia/Kathmandu", "2026-06-01T06:00+05:45", 1),
        ("day", "2011-12-30T10:30+00:00", "Pacific/Apia", "2011-12-31", 24),
    ],
)
def test_periods_are_those_of_the_clock_on_the_wall(
    unit: PeriodUnit, moment: str, zone: str, name: str, hours: int
) -> None:
    period = Calendar(unit, ZoneInfo(zone)).period(at(moment))
    assert (period.name, period.until_us - period.from_us) == (name, hours * HOUR_US)


def test_half_an_hour_that_comes_twice_is_told_apart() -> None:
    """Lord Howe goes back by half an hour at two o'clock."""
    calendar = Calendar("hour", ZoneInfo("Australia/Lord_Howe"))
    names = [calendar.period(at("2026-04-04T14:00+00:00") + half * HOUR_US // 2).name for half in range(4)]
    assert names == [
        "2026-04-05T01:00+11:00",
        "2026-04-05T01:00+11:00",
        "2026-04-05T01:30+10:30",
        "2026-04-05T02:00+10:30",
    ]


def test_a_clock_that_goes_back_over_midnight_brings_no_day_back() -> None:
    """St. John's did so at one minute past midnight."""
    calendar = Calendar("day", ZoneInfo("America/St_Johns"))
    before = at("2010-11-07T00:00:30-02:30")
    names = [calendar.period(before + minutes * 60_000_000).name for minutes in (-5, 0, 5, 70)]
    assert names == ["2010-11-06", "2010-11-07", "2010-11-07", "2010-11-07"]
