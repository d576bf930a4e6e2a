"""What people read is exact, and cannot steer their terminal."""

import json

import pytest
from corral.cli.numbers import EPOCH, moment_text, moment_us, money_micro, money_text, rough_size_text, seconds_text
from corral.cli.output import print_fields, print_json, print_table
from corral.cli.text import command_text, count_text, plain
from corral.contract import View
from corral.errors import ApiError
from hypothesis import given
from hypothesis import strategies as st

NASTY = "\x1b]0;owned\x07\x1b[2J\u202e\u2028\u200b[red]x[/red] :smile:\r\n\x9b31m\ud800"


class Said(View):
    text: str


def unsteered(text):
    return all(char == "\n" or char.isprintable() for char in text)


@given(st.text())
def test_whatever_is_shown_is_printable(text):
    assert unsteered(plain(text))
    assert "\n" not in plain(text)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "M"])))
def test_what_is_printable_is_left_alone(text):
    assert plain(text) == text


@pytest.fixture
def no_width(monkeypatch):
    """Nobody said how wide a line may be."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.mark.usefixtures("no_width")
def test_a_table_shows_markup_and_escapes_as_text(capsys):
    print_table(("A", "B"), [(NASTY, "2")])
    print_fields([("name", NASTY), ("empty", "")])
    shown = capsys.readouterr().out
    assert unsteered(shown)
    assert shown.count("\\x1b[2J") == 2
    assert shown.count("[red]x[/red] :smile:") == 2
    assert "empty" not in shown


@pytest.mark.usefixtures("no_width")
def test_a_file_gets_lines_without_trailing_blanks(capsys):
    print_table(("A", "B", ""), [("long", "字", ""), ("", "2", "end")])
    print_fields([("name", "x"), ("longer name", "y" * 300)])
    assert capsys.readouterr().out.splitlines() == [
        "A     B",
        "long  字",
        "      2   end",
        "name         x",
        "longer name  " + "y" * 300,
    ]


def test_an_id_is_not_broken_on_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    print_table(("JOB", "WHY"), [("job_" + "x" * 26, "some words " * 10)])
    shown = capsys.readouterr().out
    assert "job_" + "x" * 26 in shown
    assert max(map(len, shown.splitlines())) <= 60


def test_a_long_command_is_cut_and_stays_in_its_line():
    shown = command_text(["sh", "-c", "echo a\necho " + "b" * 1000])
    assert shown.startswith("sh -c 'echo a\\necho bbb")
    assert (len(shown), shown[-1]) == (120, "…")


@pytest.mark.parametrize(("count", "text"), [(0, "0 GPUs"), (1, "1 GPU"), (2, "2 GPUs")])
def test_a_count_agrees_with_its_noun(count, text):
    assert count_text(count, "GPU") == text


def test_json_is_ascii_and_reads_back(capfdbinary):
    print_json([Said(text="é\x1b[2J\u202e")])
    shown = capfdbinary.readouterr().out
    assert unsteered(shown.decode("ascii"))
    assert json.loads(shown) == [{"text": "é\x1b[2J\u202e"}]


def test_a_command_reads_as_it_is_typed():
    assert command_text(["echo", "a b", "$x"]) == "echo 'a b' '$x'"


@given(st.integers(0, 10**18 - 1))
def test_money_reads_as_it_was_written(micro):
    assert money_micro(money_text(micro)) == micro


@pytest.mark.parametrize(
    ("micro", "text"),
    [
        (0, "0.00"),
        (1, "0.000001"),
        (2_500_000, "2.50"),
        (-1_234_567, "-1.234567"),
        (10**21 + 1, "1" + "0" * 15 + ".000001"),
    ],
)
def test_money_has_every_digit(micro, text):
    assert money_text(micro) == text


@pytest.mark.parametrize("text", ["", "-1", "1,5", "1.1234567", ".5", "1.", "1e3", "٣"])
def test_no_money(text):
    with pytest.raises(ValueError, match="price"):
        money_micro(text)


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0s"), (1, "0.000001s"), (10_000_000, "10s"), (-1_500_000, "-1.5s"), (2**62, "4611686018427.387904s")],
)
def test_seconds_have_every_digit(us, text):
    assert seconds_text(us) == text


def test_moments():
    noon = 1_767_268_800_000_000
    assert moment_text(noon) == "2026-01-01 12:00:00Z"
    assert moment_text(None) == ""
    assert moment_us("2026-01-01T13:00:00+01:00", 0) == moment_us("2026-01-01T12:00:00", 0) == noon
    assert moment_us("1d", noon) == noon - 86_400_000_000
    assert moment_us(EPOCH.isoformat(), 0) == 0
    with pytest.raises(ValueError, match="time"):
        moment_us("yesterday", 0)


def test_a_refusal_shows_its_code_and_help():
    assert str(ApiError("not_found", 404, "no such job")) == "not_found: no such job"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1536, "1.5KiB"),
        (16 * 2**30, "16GiB"),
        (22748859187, "21.1GiB"),
        (2**62, "4194304TiB"),
    ],
)
def test_rough_sizes_are_rounded_down(size_bytes, text):
    assert rough_size_text(size_bytes) == text
