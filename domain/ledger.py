"""The hash chain of a tenant's ledger: each entry seals the one before it."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

GENESIS = "0" * 64
"""What the first entry of a chain names as the hash before it."""

Field = str | int | None
"""What an entry may hold: no float, whose text is not the same everywhere."""


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """An entry as it was stored. `fields` holds everything but the two hashes, `seq` included."""

    seq: int
    """Its place in the chain, from 1."""
    prev_hash: str
    hash: str
    fields: Mapping[str, Field]


@dataclass(frozen=True, slots=True)
class ChainHead:
    """How long a chain is and the hash of its last entry, kept where the chain is not."""

    count: int
    hash: str
    """`GENESIS` for an empty chain."""


class Tampering(StrEnum):
    """What was done to a chain."""

    EDITED = "edited"
    DELETED = "deleted"
    SWAPPED = "swapped"
    INSERTED = "inserted"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"
    """The chain agrees with itself, but not with the head kept elsewhere."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """The first place where a chain does not hold."""

    seq: int
    kind: Tampering
    problem: str


def entry_hash(prev_hash: str, fields: Mapping[str, Field]) -> str:
    """SHA-256, as hex, of the entry's fields and the hash before it, as canonical JSON.

    Canonical: one object with the keys sorted, no white space, ASCII only, `prev_hash` among the keys.

    Raises:
        ValueError: a field is neither text nor a whole number nor null, is named like a hash, or `seq` is missing.
    """
    if "seq" not in fields or not {"hash", "prev_hash"}.isdisjoint(fields):
        raise ValueError("an entry's fields hold its seq and neither of its hashes")
    for name, value in fields.items():
        if value is not None and type(value) not in (str, int):
            raise ValueError(f"{name} is neither text nor a whole number nor null")
    text = json.dumps({**fields, "prev_hash": prev_hash}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def verify_chain(entries: Iterable[ChainEntry], expected_head: ChainHead | None = None) -> Flaw | None:
    """The first flaw of a chain, read in the order of `seq` (or in which it was handed over); None if it is sound.

    Without a head kept elsewhere, neither a cut end nor a chain that was recomputed as a whole can be told. To check
    against an older head, hand over the entries up to its count.
    """
    rest = iter(entries)
    count, last_hash = 0, GENESIS
    for entry in rest:
        if flaw := _misplaced(entry, count + 1, rest) or _altered(entry, last_hash):
            return flaw
        count, last_hash = entry.seq, entry.hash
        if expected_head and count > expected_head.count:
            return Flaw(count, Tampering.INSERTED, f"entry {count} is beyond the head, which is {expected_head.count}")
    return _cut_or_rewritten(count, last_hash, expected_head)


def _misplaced(entry: ChainEntry, expected: int, rest: Iterator[ChainEntry]) -> Flaw | None:
    """Whether another entry should stand here. Reads `rest` to its end only if so."""
    if entry.seq == expected:
        return None
    if entry.seq < expected:
        return Flaw(
            entry.seq, Tampering.INSERTED, f"entry {entry.seq} stands there once more after entry {expected - 1}"
        )
    if any(later.seq == expected for later in rest):
        return Flaw(expected, Tampering.SWAPPED, f"entry {entry.seq} stands where entry {expected} belongs")
    return Flaw(expected, Tampering.DELETED, f"entry {expected} is missing; entry {entry.seq} follows")


def _altered(entry: ChainEntry, last_hash: str) -> Flaw | None:
    """Whether the entry is not what was sealed, or does not follow the one before it."""
    if entry.fields.get("seq") != entry.seq:
        return Flaw(entry.seq, Tampering.SWAPPED, f"entry {entry.seq} was sealed as entry {entry.fields.get('seq')}")
    try:
        sealed = entry_hash(entry.prev_hash, entry.fields)
    except ValueError as error:
        return Flaw(entry.seq, Tampering.EDITED, f"entry {entry.seq} cannot have been sealed: {error}")
    if sealed != entry.hash:
        return Flaw(entry.seq, Tampering.EDITED, f"entry {entry.seq} is not what its hash was made of")
    if entry.prev_hash != last_hash:
        before = f"entry {entry.seq - 1}" if entry.seq > 1 else "the start of the chain"
        return Flaw(entry.seq, Tampering.INSERTED, f"entry {entry.seq} does not follow {before}: it names another hash")
    return None


def _cut_or_rewritten(count: int, last_hash: str, head: ChainHead | None) -> Flaw | None:
    """Whether a chain that agrees with itself ends where the head says."""
    if head is None:
        return None
    if count < head.count:
        return Flaw(count + 1, Tampering.TRUNCATED, f"the chain ends after {count} of {head.count} entries")
    if last_hash != head.hash:
        return Flaw(count, Tampering.REWRITTEN, f"entry {count}, or one before it, was replaced and all hashes remade")
    return None
