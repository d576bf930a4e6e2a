"""Sizes and times survive being written and read."""

import pytest
from corral.quantities import QUANTITY_MAX, duration_text, duration_us, size_bytes, size_text
from hypothesis import given
from hypothesis import strategies as st


@given(st.one_of(st.integers(0, 10**15 - 1), st.integers(0, 2**22).map(lambda n: n * 2**40)))
def test_a_size_reads_as_it_was_written(value):
    assert size_bytes(size_text(value)) == value


@given(st.integers(0, QUANTITY_MAX // 1000))
def test_a_time_in_whole_milliseconds_reads_as_it_was_written(milliseconds):
    assert duration_us(duration_text(milliseconds * 1000)) == milliseconds * 1000


@pytest.mark.parametrize(
    ("text", "value"),
    [("40GiB", 40 * 2**30), ("512MB", 512 * 10**6), ("1kB", 1000), ("7", 7), (7, 7), ("0", 0), ("3B", 3)],
)
def test_sizes(text, value):
    assert size_bytes(text) == value


@pytest.mark.parametrize(
    "text", ["", "1 GiB", "-1", "1.5GiB", "1gib", "1GiBx", "٣", "9" * 16, "5000000TiB", -1, 2**62 + 1, True, 1.0, None]
)
def test_no_sizes(text):
    with pytest.raises(ValueError, match="size"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90_000_000), ("1h30m", 5_400_000_000), ("2d", 172_800_000_000), ("5ms", 5_000)]
)
def test_times(text, value):
    assert duration_us(text) == value


@pytest.mark.parametrize("text", ["", "90", "1.5h", "-1s", "1y", "1h 30m", "999999999999d", "٣s", 90, None])
def test_no_times(text):
    with pytest.raises(ValueError, match="time"):
        duration_us(text)
