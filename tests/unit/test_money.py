"""What time costs: every sum is exact, however it was posted."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.endings import Outcome
from domain.money import (
    GPU_HOUR,
    HOUR_US,
    Cause,
    EntryKind,
    Interval,
    Posted,
    Posting,
    cost_micro,
    durations,
    gpu_hours_text,
    intervals,
    rate_milli,
    settle,
)

PRICE = 2_490_000
durations_us = st.integers(0, 10**13)
causes_us = st.dictionaries(st.sampled_from(Cause), durations_us)
prices = st.integers(0, 10**10)
shares = st.integers(1, 1000)


def posted_after(posted: dict[Cause, Posted], lines: tuple[Posting, ...]) -> dict[Cause, Posted]:
    sums = dict(posted)
    for line in lines:
        was = sums.get(line.cause, Posted(0, 0))
        sums[line.cause] = Posted(was.duration_us + line.duration_us, was.cost_micro + line.cost_micro)
    return sums


def test_an_hour_of_a_gpu_costs_its_price_and_a_share_its_part() -> None:
    assert cost_micro(HOUR_US, 1000, PRICE) == PRICE
    assert cost_micro(HOUR_US, 250, PRICE) == PRICE // 4
    assert cost_micro(0, 1000, PRICE) == 0
    assert cost_micro(1, 1000, PRICE) == 0, "what is less than a millionth is dropped"


@pytest.mark.parametrize("amounts", [(-1, 1000, 1), (1, -1, 1), (1, 1000, -1)])
def test_nothing_negative_has_a_cost(amounts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="negative"):
        cost_micro(*amounts)


@given(causes_us, st.lists(st.dictionaries(st.sampled_from(Cause), durations_us), max_size=6), shares, prices)
def test_sums_are_exact_whatever_was_posted_in_between(
    final: dict[Cause, int], partial: list[dict[Cause, int]], share_milli: int, price: int
) -> None:
    """Hourly postings may have said less, or more, than what turned out to be true."""
    posted: dict[Cause, Posted] = {}
    for so_far in [*partial, final]:
        posted = posted_after(posted, settle(so_far, posted, share_milli, price))
    for cause in Cause:
        duration_us = final.get(cause, 0)
        cost = cost_micro(duration_us, share_milli, price) if cause.is_charged else 0
        assert posted.get(cause, Posted(0, 0)) == Posted(duration_us, cost)
    assert settle(final, posted, share_milli, price) == (), "settling again posts nothing"


@given(st.lists(durations_us, min_size=1), shares, prices)
def test_time_that_only_grows_is_posted_as_usage_alone(parts: list[int], share_milli: int, price: int) -> None:
    posted: dict[Cause, Posted] = {}
    total_us = 0
    for part in parts:
        total_us += part
        lines = settle({Cause.RUNNING: total_us}, posted, share_milli, price)
        assert all(line.kind is EntryKind.USAGE and line.duration_us > 0 and line.cost_micro >= 0 for line in lines)
        posted = posted_after(posted, lines)
    assert posted.get(Cause.RUNNING, Posted(0, 0)).cost_micro == cost_micro(total_us, share_milli, price)


@given(causes_us, causes_us, shares, prices)
def test_only_a_correction_is_negative(
    before: dict[Cause, int], final: dict[Cause, int], share_milli: int, price: int
) -> None:
    posted = posted_after({}, settle(before, {}, share_milli, price))
    for line in settle(final, posted, share_milli, price):
        is_negative = line.duration_us < 0 or line.cost_micro < 0
        assert is_negative == (line.kind is EntryKind.CORRECTION)


def test_time_charged_by_the_hour_is_given_back_when_the_platform_failed() -> None:
    posted = posted_after({}, settle({Cause.RUNNING: HOUR_US}, {}, 1000, PRICE))
    assert settle({Cause.PLATFORM_FAULT: HOUR_US + 5}, posted, 1000, PRICE) == (
        Posting(EntryKind.CORRECTION, Cause.RUNNING, -HOUR_US, -PRICE),
        Posting(EntryKind.USAGE, Cause.PLATFORM_FAULT, HOUR_US + 5, 0),
    )


def test_a_wrong_cost_alone_is_corrected() -> None:
    posted = {Cause.RUNNING: Posted(HOUR_US, PRICE - 1)}
    expected = Posting(EntryKind.CORRECTION, Cause.RUNNING, 0, 1)
    assert settle({Cause.RUNNING: HOUR_US}, posted, 1000, PRICE) == (expected,)


# Causes


@pytest.mark.parametrize("outcome", Outcome)
def test_who_pays_for_each_outcome(outcome: Outcome) -> None:
    found = durations(intervals(outcome, 3, 5, 7))
    assert sum(found.values()) == 15, "all time is recorded, once"
    if outcome.is_platform_fault or outcome is Outcome.IMAGE_ERROR:
        assert found == {Cause.PLATFORM_FAULT: 15}
    elif outcome is Outcome.PREEMPTED:
        assert found == {Cause.PREPARING: 3, Cause.RUNNING: 5, Cause.PLATFORM_FAULT: 7}
    else:
        assert found == {Cause.PREPARING: 3, Cause.RUNNING: 5, Cause.STOPPING: 7}


@given(st.sampled_from(Outcome), durations_us, durations_us, durations_us)
def test_intervals_follow_each_other_without_gap_or_overlap(outcome: Outcome, a: int, b: int, c: int) -> None:
    found = intervals(outcome, a, b, c)
    assert all(part.duration_us > 0 for part in found)
    ends = [0, *(part.until_us for part in found)]
    assert [part.from_us for part in found] == ends[:-1]
    assert ends[-1] == a + b + c


def test_a_job_of_no_length_has_no_interval_and_a_part_of_no_length_is_left_out() -> None:
    assert intervals(Outcome.CANCELLED, 0, 0, 0) == ()
    assert intervals(Outcome.EXITED, 2, 0, 3) == (Interval(Cause.PREPARING, 0, 2), Interval(Cause.STOPPING, 2, 5))


def test_no_part_may_be_negative() -> None:
    with pytest.raises(ValueError, match="running"):
        intervals(Outcome.EXITED, 1, -1, 1)


# Text


@pytest.mark.parametrize(
    ("gpu_us_milli", "text"),
    [
        (0, "0"),
        (GPU_HOUR, "1"),
        (GPU_HOUR * 3 // 2, "1.5"),
        (-GPU_HOUR // 4, "-0.25"),
        (9, "0.0000000000025"),
        (1, "0.000000000000278"),
        (GPU_HOUR * 10**9 + 9, "1000000000.0000000000025"),
    ],
)
def test_gpu_hours_in_text(gpu_us_milli: int, text: str) -> None:
    assert gpu_hours_text(gpu_us_milli) == text


@given(st.integers(-(10**24), 10**24))
def test_the_text_of_gpu_hours_is_exact_where_it_can_be_and_always_gives_the_number_back(gpu_us_milli: int) -> None:
    told = Fraction(gpu_hours_text(gpu_us_milli)) * GPU_HOUR
    assert round(told) == gpu_us_milli
    assert told == gpu_us_milli or gpu_us_milli % 9


def test_nine_units_are_exact() -> None:
    assert Fraction(gpu_hours_text(9 * 123_456_789)) * GPU_HOUR == 9 * 123_456_789


def test_time_that_the_platform_lost_after_the_end_is_recorded_and_free() -> None:
    parts = intervals(Outcome.EXITED, 10, 20, 30, 40)
    assert [(part.cause, part.duration_us) for part in parts][-2:] == [
        (Cause.STOPPING, 30),
        (Cause.PLATFORM_FAULT, 40),
    ]
    assert parts[-1].until_us == 100
    assert not parts[-1].cause.is_charged


rates_milli = st.dictionaries(st.sampled_from(Cause), st.integers(0, 10_000))


@given(causes_us, st.lists(causes_us, max_size=4), shares, prices, rates_milli)
def test_rates_keep_every_sum_exact_and_never_charge_a_fault_of_the_platform(
    final: dict[Cause, int], partial: list[dict[Cause, int]], share_milli: int, price: int, rates: dict[Cause, int]
) -> None:
    posted: dict[Cause, Posted] = {}
    for so_far in [*partial, final]:
        posted = posted_after(posted, settle(so_far, posted, share_milli, price, rates))
    for cause in Cause:
        cost = final.get(cause, 0) * share_milli * price * rate_milli(cause, rates) // (GPU_HOUR * 1000)
        assert posted.get(cause, Posted(0, 0)).cost_micro == cost
    assert posted.get(Cause.PLATFORM_FAULT, Posted(0, 0)).cost_micro == 0


def test_a_full_rate_is_the_price_itself() -> None:
    assert cost_micro(HOUR_US, 1000, PRICE, 1000) == PRICE == 2 * cost_micro(HOUR_US, 1000, PRICE, 500)
    assert cost_micro(HOUR_US, 1000, PRICE, 0) == 0
