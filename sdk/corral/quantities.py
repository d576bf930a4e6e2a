"""Sizes and times as people write them, as exact integers."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

SIZE_UNITS = {
    "": 1, "B": 1,
    "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
TIME_UNITS_US = {"ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
QUANTITY_MAX = 2**62
MOMENT_MAX_US = 253_402_300_799_999_999
"""The end of the year 9999."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,15})(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?", re.ASCII)
_TIME_PART = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)", re.ASCII)
_TIME = re.compile(r"(?:[0-9]{1,12}(?:ms|s|m|h|d)){1,5}", re.ASCII)


def size_bytes(text: object) -> int:
    """Bytes in "40GiB", "512MB" or a whole number of bytes."""
    if isinstance(text, int) and not isinstance(text, bool):
        if 0 <= text <= QUANTITY_MAX:
            return text
        raise ValueError("a size is from 0 to 4 EiB")
    if not isinstance(text, str) or not (match := _SIZE.fullmatch(text)):
        raise ValueError('a size is written like "512MiB" or "40GiB"')
    value = int(match[1]) * SIZE_UNITS[match[2] or ""]
    if value > QUANTITY_MAX:
        raise ValueError("a size is at most 4 EiB")
    return value


def duration_us(text: object) -> int:
    """Microseconds in "90s", "15m", "1h30m" or "2d"."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise ValueError('a time is written like "90s", "15m" or "1h30m"')
    value = sum(int(number) * TIME_UNITS_US[unit] for number, unit in _TIME_PART.findall(text))
    if value > QUANTITY_MAX:
        raise ValueError("that time is too long")
    return value


def moment_us(text: str) -> int:
    """Microseconds since the epoch of a moment as RFC 3339 writes it: "2026-12-01T08:00:00Z"."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not _MOMENT.match(text) or moment < _EPOCH:
        raise ValueError('a moment is written like "2026-12-01T08:00:00Z", with its time zone')
    return (moment - _EPOCH) // timedelta(microseconds=1)


def start_us(value: object) -> tuple[int, int]:
    """An earliest start: as a moment (text, or microseconds since the epoch), or else as a time from now on."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOMENT_MAX_US:
        return value, 0
    if isinstance(value, str) and _TIME.fullmatch(value):
        return 0, duration_us(value)
    if isinstance(value, str):
        return moment_us(value), 0
    raise ValueError('a start is a moment ("2026-12-01T08:00:00Z") or a time from now on ("2h")')


def _start(value: object) -> object:
    start_us(value)
    return value


def size_text(value: int) -> str:
    """The shortest exact way to write so many bytes."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if value and value % SIZE_UNITS[unit] == 0:
            return f"{value // SIZE_UNITS[unit]}{unit}"
    return str(value)


def duration_text(value_us: int) -> str:
    """The shortest exact way to write so many microseconds, cut to milliseconds."""
    parts, rest = [], value_us
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, TIME_UNITS_US[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


Size = Annotated[
    int,
    BeforeValidator(size_bytes),
    PlainSerializer(size_text, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["40GiB"]}),
]
"""A number of bytes, sent as text."""

Duration = Annotated[
    int,
    BeforeValidator(duration_us),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["1h30m"]}),
]
"""A number of microseconds, sent as text."""

Start = Annotated[
    int | str,
    BeforeValidator(_start),
    WithJsonSchema({"anyOf": [{"type": "string", "examples": ["2026-12-01T08:00:00Z", "2h"]}, {"type": "integer"}]}),
]
"""An earliest start: a moment, or a time from the submission on."""
