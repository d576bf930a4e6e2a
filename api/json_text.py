"""Looks at JSON before anything parses it for real: what parsers take, read two ways or die of is refused."""

import json
import math
import re
from typing import Any

from domain.errors import Invalid

DEPTH_MAX = 32
NUMBER_DIGITS_MAX = 40
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""A bracket, or a text (one that never closes reaches to the end, so that no quote is looked at twice)."""

_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def check(body: bytes) -> None:
    """Refuse what is not JSON in the strictest sense, in time linear in its length.

    Raises:
        Invalid: not UTF-8, nested too deep, a key twice, NaN or Infinity, a number out of any range, NUL or a lone
            surrogate in a text, or no JSON at all.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid("the body is not UTF-8") from None
    _check_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object_without_doubles,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except json.JSONDecodeError as error:
        raise Invalid(f"the body is not JSON: {error.msg} at character {error.pos}") from None
    _check_texts(value)


def _check_depth(text: str) -> None:
    depth = 0
    for token in _TOKEN.finditer(text):
        start = text[token.start()]
        if start != '"':
            depth += 1 if start in "[{" else -1
        if depth > DEPTH_MAX:
            raise Invalid(f"the body is nested deeper than {DEPTH_MAX}")


def _object_without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Invalid("the body has a key twice")
    return made


def _no_constant(name: str) -> None:
    raise Invalid(f"{name} is not JSON")


def _finite(digits: str) -> float:
    if len(digits) > NUMBER_DIGITS_MAX or not math.isfinite(value := float(digits)):
        raise Invalid("a number is out of range")
    return value


def _bounded(digits: str) -> int:
    if len(digits) > NUMBER_DIGITS_MAX:
        raise Invalid("a number is out of range")
    return int(digits)


def _check_texts(value: Any) -> None:
    """Depth is bounded by now."""
    if isinstance(value, str):
        if _NO_TEXT.search(value):
            raise Invalid("a text holds NUL or a lone surrogate")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_texts(key)
            _check_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_texts(inner)
