"""Blacking out: a secret never shows in any known form, however the output is cut, and all else stays as it was."""

import base64
import json
import textwrap
from collections.abc import Callable, Sequence
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sandbox.runner.redaction import Forms, Redactor

VALUE = b"s3cr3t/+ \xc3\xa9 value"
FORMS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda value: value,
    "hex": lambda value: value.hex().encode(),
    "HEX": lambda value: value.hex().upper().encode(),
    "base64": base64.b64encode,
    "base64 for URLs": base64.urlsafe_b64encode,
    "base64 without padding": lambda value: base64.b64encode(value).rstrip(b"="),
    "in an URL": lambda value: quote(value, safe="").encode(),
    "in a path": lambda value: quote(value).encode(),
    "in a form": lambda value: quote_plus(value).encode(),
    "in JSON": lambda value: json.dumps(value.decode())[1:-1].encode(),
}
values = st.binary(min_size=6, max_size=80)
chunkings = st.lists(st.integers(1, 30), max_size=60)


def streamed(forms: Forms, data: bytes, sizes: Sequence[int] = ()) -> bytes:
    """What is shown of data that comes in pieces of these sizes, and then the rest."""
    stream, shown = Redactor(forms), b""
    for size in sizes:
        piece, data = data[:size], data[size:]
        shown += stream.feed(piece)
    return shown + stream.feed(data) + stream.flush()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_each_form_is_blacked_out_in_pieces_of_any_size(form: str, size: int) -> None:
    shown = FORMS[form](VALUE)
    data = b"before " + shown + b" after\n"
    assert streamed(Forms({"KEY": VALUE}), data, [size] * 100).startswith(b"before [redacted:KEY]")
    assert shown[:-2] not in streamed(Forms({"KEY": VALUE}), data, [size] * 100)


@given(value=values, before=st.binary(max_size=40), after=st.binary(max_size=40), sizes=chunkings)
def test_a_secret_never_shows(value: bytes, before: bytes, after: bytes, sizes: list[int]) -> None:
    assert value not in streamed(Forms({"K": value}), before + value + after, sizes)


@given(
    value=values,
    before=st.binary(max_size=100),
    after=st.binary(max_size=100),
    is_urlsafe=st.booleans(),
    width=st.sampled_from([0, 60, 64, 76]),
    line_end=st.sampled_from([b"\n", b"\r\n"]),
    sizes=chunkings,
)
def test_base64_is_known_at_any_alignment_and_across_lines(
    value: bytes, before: bytes, after: bytes, is_urlsafe: bool, width: int, line_end: bytes, sizes: list[int]
) -> None:
    encode = base64.urlsafe_b64encode if is_urlsafe else base64.b64encode
    encoded = encode(before + value + after)
    alone = encode(bytes(len(before) % 3) + value)[(0, 2, 3)[len(before) % 3] : -4]
    assert alone in encoded
    lines = line_end.join(map(str.encode, textwrap.wrap(encoded.decode(), width))) if width else encoded
    shown = streamed(Forms({"K": value}), b"> " + lines + b"\n", sizes)
    assert alone not in shown.replace(b"\n", b"").replace(b"\r", b"")


@given(value=values, data=st.binary(max_size=300), sizes=chunkings)
def test_all_else_stays_byte_for_byte(value: bytes, data: bytes, sizes: list[int]) -> None:
    forms = Forms({"K": value})
    assume(not forms.spans(data))
    assert streamed(forms, data, sizes) == data


@given(value=st.text("ab", min_size=6, max_size=12), text=st.text("ab\n", max_size=200), sizes=chunkings)
def test_it_holds_for_secrets_that_overlap_themselves(value: str, text: str, sizes: list[int]) -> None:
    shown = streamed(Forms({"K": value.encode()}), text.encode(), sizes)
    assert value.encode() not in shown


@given(first=values, second=values, between=st.binary(max_size=5), sizes=chunkings)
def test_several_secrets_are_blacked_out_side_by_side(
    first: bytes, second: bytes, between: bytes, sizes: list[int]
) -> None:
    shown = streamed(Forms({"A": first, "B": second}), first + between + second + first[:3], sizes)
    assert first not in shown
    assert second not in shown


@given(value=values, data=st.binary(max_size=3000), sizes=chunkings)
def test_no_more_is_held_than_a_secret_is_long(value: bytes, data: bytes, sizes: list[int]) -> None:
    forms = Forms({"K": value})
    stream, fed, shown = Redactor(forms), 0, 0
    for size in [*sizes, 3000]:
        piece, data = data[:size], data[size:]
        fed, shown = fed + len(piece), shown + len(stream.feed(piece))
        assert fed - shown <= forms.hold_max + fed // len(value) * len(value)


def test_what_cannot_be_the_beginning_of_a_secret_is_shown_at_once() -> None:
    stream = Redactor(Forms({"K": b"password"}))
    assert stream.feed(b"step 1\n") == b"step 1\n"
    assert stream.feed(b"the pass") == b"the "
    assert stream.feed(b"age is open\n") == b"passage is open\n"


def test_endless_ends_of_lines_are_not_held_for_ever() -> None:
    forms = Forms({"K": b"password"})
    stream = Redactor(forms)
    stream.feed(base64.b64encode(b"password")[:4])
    shown = sum(len(stream.feed(b"\n" * 1000)) for _ in range(20))
    assert shown > 20_000 - forms.hold_max


@pytest.mark.parametrize("value", [b"[redacted:K]", b"redacted", b"]and so on", b"ends in ["])
def test_a_mark_never_is_or_makes_a_secret(value: bytes) -> None:
    shown = streamed(Forms({"K": value}), value + value[1:] + value + value[:-1] + value)
    assert value not in shown


def test_a_line_end_at_a_secrets_end_is_no_part_of_it() -> None:
    assert streamed(Forms({"K": b"from a file\n"}), b"it is from a file.") == b"it is [redacted:K]."


def test_names_and_errors_are_cleaned_whole() -> None:
    forms = Forms({"TOKEN": b"hunter22"})
    assert forms.clean("out/hunter22.txt") == "out/[redacted:TOKEN].txt"
    assert forms.clean("\udc80 é") == "\udc80 é"
    assert Forms({}).clean("anything") == "anything"
