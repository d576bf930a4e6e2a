"""The look at JSON before it is parsed: what it takes, any parser takes in one way; the rest it refuses, quickly."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.json_text import DEPTH_MAX, check
from domain.errors import Invalid

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)
NUMBERS = st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_plain_json_passes(value: Any, is_ascii: bool) -> None:
    check(json.dumps(value, ensure_ascii=is_ascii).encode())


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\u0d8ef 1eE+-.nultrasNIy', max_size=200).map(str.encode))
def test_anything_passes_or_is_refused(body: bytes) -> None:
    try:
        check(body)
    except Invalid:
        return
    json.loads(body)


@given(st.integers(1, DEPTH_MAX), st.sampled_from(["[]", "{}"]))
def test_depth_is_bounded(depth: int, kind: str) -> None:
    begin = {"[]": "[", "{}": '{"a":'}[kind]
    check((begin * depth + "1" + kind[1] * depth).encode())
    too_deep = depth + DEPTH_MAX
    with pytest.raises(Invalid):
        check((begin * too_deep + "1" + kind[1] * too_deep).encode())


@pytest.mark.parametrize(
    "body",
    [b"[" * 2_000_000, b'"' + b"\\" * 2_000_000, b'["' + b'\\"' * 1_000_000, b"9" * 2_000_000, b"-" * 2_000_000,
     b'{"a":' * 400_000, b"[" + b"1," * 1_000_000, b"[]" * 1_000_000],
)  # fmt: skip
def test_time_is_linear_in_the_length(body: bytes) -> None:
    began = time.monotonic()
    with pytest.raises(Invalid):
        check(body)
    assert time.monotonic() - began < 10
