"""Checks a hash chain without the server: each entry's hash is made of its fields and the hash before it."""

import hashlib
import json
from collections.abc import Iterable, Mapping

GENESIS = "0" * 64
"""What the first entry of a chain names as the hash before it."""
Field = str | int | None


def canonical_json(document: object) -> bytes:
    """The one text of a document: keys sorted, no white space, ASCII only. The server hashes and signs this."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def entry_hash(fields: Mapping[str, Field]) -> str:
    """SHA-256, as hex, of an entry's fields but its own hash: canonical JSON, keys sorted, ASCII, no white space."""
    hashed = {name: value for name, value in fields.items() if name != "hash"}
    return hashlib.sha256(canonical_json(hashed)).hexdigest()


def first_bad(entries: Iterable[Mapping[str, Field]], length: int, head: str) -> tuple[int, str] | None:
    """The number of the first entry that does not hold, and why; None if they are whole up to the head.

    Args:
        entries: in the order of their `seq`; they may begin in the middle of the chain, and go on beyond the head.
        length, head: how long the chain was and its last hash, as somebody noted it who is trusted.
    """
    seq, previous = None, GENESIS
    for entry in entries:
        number = int(entry["seq"] or 0)
        if seq is None and number > 1:
            seq, previous = number - 1, str(entry["prev_hash"])
        expected = 1 if seq is None else seq + 1
        if number != expected:
            return expected, f"entry {expected} is missing; entry {number} follows"
        if entry["prev_hash"] != previous:
            return number, f"entry {number} names another hash than that of the entry before it"
        if entry["hash"] != entry_hash(entry):
            return number, f"entry {number} is not what its hash was made of"
        if number == length and entry["hash"] != head:
            return number, f"entry {number}, or one before it, was replaced and every hash after it remade"
        seq, previous = number, str(entry["hash"])
    if (seq or 0) < length:
        return (seq or 0) + 1, f"the chain ends after {seq or 0} of {length} entries"
    return None
