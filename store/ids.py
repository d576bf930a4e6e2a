"""New ids: a prefix for the kind, then 26 characters that sort by time."""

import secrets
import time
from typing import Literal

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, in lower case."""
Prefix = Literal[
    "ten", "key", "nod", "gpu", "job", "arr", "att", "all", "ent", "art", "tok", "prc", "aud", "req", "sig", "mem",
    "whk", "dlv", "evt",
    "log", "ask",
]  # fmt: skip


def new_id(prefix: Prefix) -> str:
    """50 bits of time in microseconds, 80 random bits: nobody guesses one, and indexes grow at their end."""
    return id_at(prefix, time.time_ns() // 1000, secrets.randbits(80))


def id_at(prefix: Prefix, at_us: int, rest: int = 0) -> str:
    """An id of that moment; without `rest` it sorts before all others of it."""
    value = (at_us << 80 | rest) & ((1 << 130) - 1)
    digits = []
    for _ in range(26):
        value, digit = divmod(value, 32)
        digits.append(ALPHABET[digit])
    return f"{prefix}_{''.join(reversed(digits))}"
