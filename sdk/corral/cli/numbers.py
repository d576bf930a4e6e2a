"""Numbers as people read and write them: exact, never a float."""

import re
from datetime import UTC, datetime, timedelta

from corral.pulls import PullProgress
from corral.quantities import SIZE_UNITS, duration_us

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_US = 3_600_000_000
PURSE_UNITS = {"money_micro": "money", "gpu_time": "GPU-hours", "gpus_milli": "GPUs"}
_MONEY = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?", re.ASCII)


def money_text(micro: int) -> str:
    """Millionths as a decimal with every digit, at least two after the point."""
    whole, rest = divmod(abs(micro), 10**6)
    digits = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if micro < 0 else ''}{whole}.{digits}"


def money_micro(text: str) -> int:
    """Millionths in "2.5".

    Raises:
        ValueError: it is no such number, or has more digits than can be kept.
    """
    if not (match := _MONEY.fullmatch(text)):
        raise ValueError("a price is written like 2.50, with at most six digits after the point")
    return int(match[1]) * 10**6 + int((match[2] or "").ljust(6, "0"))


def milli_text(milli: int) -> str:
    """Thousandths as a decimal with no digit too many."""
    whole, rest = divmod(abs(milli), 1000)
    text = f"{whole}.{rest:03d}".rstrip("0").rstrip(".")
    return f"-{text}" if milli < 0 else text


def purse_text(unit: str, amount: int) -> str:
    """An amount of what a purse counts: money, GPU-hours or GPUs."""
    if unit == "money_micro":
        return money_text(amount)
    return milli_text(amount if unit == "gpus_milli" else amount * 1000 // HOUR_US)


def seconds_text(us: int) -> str:
    """Microseconds as seconds with every digit."""
    whole, rest = divmod(abs(us), 10**6)
    digits = f".{rest:06d}".rstrip("0").rstrip(".")
    return f"{'-' if us < 0 else ''}{whole}{digits}s"


def rough_size_text(size_bytes: int) -> str:
    """A size to a tenth of its unit, rounded down."""
    unit = next((name for name in ("TiB", "GiB", "MiB", "KiB") if size_bytes >= SIZE_UNITS[name]), "B")
    tenths = size_bytes * 10 // SIZE_UNITS[unit]
    return f"{tenths // 10}.{tenths % 10}{unit}" if tenths % 10 else f"{tenths // 10}{unit}"


def pull_text(pull: PullProgress) -> str:
    """How far an image has come to its node."""
    sizes = f"{rough_size_text(pull.bytes_done)} of {rough_size_text(pull.bytes_total)}"
    return f"{sizes}, {pull.layers_done} of {pull.layers} layers"


def moment_text(us: int | None) -> str:
    """A time of the API, in UTC, to the second; nothing for None."""
    if us is None:
        return ""
    return (EPOCH + timedelta(microseconds=us)).strftime("%Y-%m-%d %H:%M:%SZ")


def moment_us(text: str, now_us: int) -> int:
    """Microseconds since the epoch in "2026-01-31", "2026-01-31T12:00:00+01:00" or "7d" (so long ago).

    Raises:
        ValueError: it is none of these.
    """
    try:
        return now_us - duration_us(text)
    except ValueError:
        pass  # not a span, so a date
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError('a time is written like "2026-01-31", "2026-01-31T12:00:00Z" or "7d" (so long ago)') from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(microseconds=1)
