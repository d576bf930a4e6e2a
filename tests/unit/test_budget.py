"""The arithmetic of purses: months, holds, thresholds."""

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import budget
from domain.budget import Line
from domain.money import Cause, cost_micro, dearest_micro, rate_milli
from domain.purse import TOTAL, Unit

HOUR = 3_600_000_000
times = st.integers(min_value=1_700_000_000_000_000, max_value=1_900_000_000_000_000)
spans = st.integers(min_value=0, max_value=100 * 24 * HOUR)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


@given(times, spans, st.integers(min_value=-(10**15), max_value=10**15))
def test_an_amount_cut_by_months_adds_up_to_itself(from_us: int, span: int, amount: int) -> None:
    parts = budget.by_month(from_us, from_us + span, amount)
    assert sum(parts.values()) == amount
    assert list(parts) == sorted(parts)
    assert set(parts) >= {budget.month_of(from_us)}


def test_time_belongs_to_the_month_in_which_it_lies() -> None:
    parts = budget.by_month(at("2026-01-31T22:00"), at("2026-02-01T01:00"), 3 * HOUR)
    assert parts == {"2026-01": 2 * HOUR, "2026-02": HOUR}
    assert budget.by_month(at("2026-01-31T22:00"), at("2026-02-01T00:00"), 7) == {"2026-01": 7}
    assert budget.by_month(at("2026-02-01T00:00"), at("2026-02-01T00:00"), 7) == {"2026-02": 7}
    assert len(budget.by_month(0, 2**62, 10**18)) == budget.MONTHS_AHEAD


@given(times)
def test_a_month_begins_where_the_one_before_it_ends(moment: int) -> None:
    start, end = budget.month_start(moment), budget.month_end(moment)
    assert start <= moment < end
    assert budget.month_start(end) == end
    assert budget.month_of(end) > budget.month_of(end - 1) == budget.month_of(start)
    assert budget.month_first(budget.month_of(moment)) == start


@given(
    times,
    st.integers(min_value=1, max_value=80 * 24 * HOUR),
    st.lists(st.integers(min_value=0, max_value=10**9), min_size=1, max_size=4),
    st.data(),
)
def test_what_is_held_covers_whatever_is_posted_within_the_time(
    from_us: int, for_us: int, prices: list[int], data: st.DataObject
) -> None:
    held = budget.most(prices, from_us, for_us)
    cuts = sorted(data.draw(st.lists(st.integers(min_value=0, max_value=for_us), max_size=6)))
    lines = []
    for price in prices:
        marks = [0, *cuts]
        for begin, end in itertools.pairwise(marks):  # hourly lines, each a difference of two wholes
            cost = cost_micro(end, 1000, price) - cost_micro(begin, 1000, price)
            lines.append(Line(Cause.RUNNING, from_us + begin, from_us + end, end - begin, 1000, cost))
    for place, amount in budget.used(lines).items():
        assert amount <= held[place]


def test_faults_of_the_platform_take_nothing_and_a_correction_gives_back_what_was_taken() -> None:
    line = Line(Cause.RUNNING, 0, HOUR, HOUR, 1000, 5)
    back = Line(Cause.RUNNING, 0, HOUR, -HOUR, 1000, -5)
    fault = Line(Cause.PLATFORM_FAULT, 0, HOUR, HOUR, 1000, 0)
    assert budget.used([line])[Unit.GPU_TIME, TOTAL] == HOUR
    assert budget.used([line, back, fault]) == {}


def test_a_job_of_absurd_length_holds_no_more_than_a_column_can_say() -> None:
    held = budget.most([10**12] * 8, at("2026-01-01"), 2**62)
    assert max(held.values()) == budget.MOST
    assert len([place for place in held if place[1] != TOTAL]) == 2 * budget.MONTHS_AHEAD


@pytest.mark.parametrize(
    ("spent", "bound", "expected"),
    [(0, 0, 0), (1, 0, 100), (-5, 10, 0), (49, 100, 0), (50, 100, 50), (79, 100, 50), (80, 100, 80), (100, 100, 100),
     (250, 100, 100)],
)  # fmt: skip
def test_thresholds(spent: int, bound: int, expected: int) -> None:
    assert budget.reached(spent, bound) == expected
    assert budget.crossed(0, spent, bound) == tuple(each for each in budget.THRESHOLDS if each <= expected)
    assert budget.crossed(80, spent, bound) == ((100,) if expected == 100 else ())


@given(
    st.integers(0, 10**12),
    st.dictionaries(st.sampled_from(Cause), st.integers(0, 10_000)),
    st.lists(st.tuples(st.sampled_from(Cause), st.integers(0, 40 * 86_400_000_000)), min_size=1, max_size=4),
    st.integers(0, 400 * 86_400_000_000),
    st.integers(1, 8),
)
def test_no_attempt_spends_more_than_is_held_whatever_its_causes_cost(
    price: int, rates: dict[Cause, int], parts: list[tuple[Cause, int]], from_us: int, gpus: int
) -> None:
    lines, at = [], from_us
    for cause, duration in parts:
        cost = cost_micro(duration, 1000, price, rate_milli(cause, rates))
        lines += [Line(cause, at, at + duration, duration, 1000, cost)] * gpus
        at += duration
    held = budget.most([dearest_micro(price, rates)] * gpus, from_us, at - from_us)
    for place, amount in budget.used(lines).items():
        assert amount <= held.get(place, 0), place
