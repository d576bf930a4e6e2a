"""The hash chain of a tenant's ledger: each entry seals the one before it."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

GENESIS = "0" * 64
"""What the first entry of a chain names as the hash before it."""

MOST_MOVED = 100
"""How many removed entries in a row are recognised as such when the rest was renumbered."""

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


EMPTY = ChainHead(0, GENESIS)


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


def canonical_json(document: object) -> str:
    """The one text of a document of objects, lists, text, whole numbers, truth values and null.

    Keys sorted, no white space, ASCII only. The SDK has the same function, so that it can check without a server.
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def entry_hash(prev_hash: str, fields: Mapping[str, Field]) -> str:
    """SHA-256, as hex, of the entry's fields and the hash before it, as canonical JSON: `prev_hash` is one of the keys.

    Raises:
        ValueError: a field is neither text nor a whole number nor null, is named like a hash, or `seq` is missing.
    """
    if "seq" not in fields or not {"hash", "prev_hash"}.isdisjoint(fields):
        raise ValueError("an entry's fields hold its seq and neither of its hashes")
    for name, value in fields.items():
        if value is not None and type(value) not in (str, int):
            raise ValueError(f"{name} is neither text nor a whole number nor null")
    return hashlib.sha256(canonical_json({**fields, "prev_hash": prev_hash}).encode("ascii")).hexdigest()


def chain_head(count: int | None, hash: str | None) -> ChainHead:
    """As it is stored, where an empty chain has no hash; None where none is stored."""
    return ChainHead(count or 0, hash or GENESIS)


def verify_chain(
    entries: Iterable[ChainEntry],
    expected_head: ChainHead | None = None,
    after: ChainHead = EMPTY,
    *,
    is_to_end: bool = True,
) -> Flaw | None:
    """The first flaw of a chain, read in the order of `seq` (or in which it was handed over); None if it is sound.

    Without a head kept elsewhere, neither a cut end nor a chain that was recomputed as a whole can be told. To check
    against an older head, hand over the entries up to its count.

    Args:
        after: the last entry that was looked at before, of a chain that is read in pieces.
        is_to_end: whether the chain ends with these entries.
    """
    rest = iter(entries)
    before = last = after
    for entry in rest:
        if flaw := _misplaced(entry, last, rest) or _unlinked(entry, before, last, rest) or _altered(entry):
            return flaw
        before, last = last, ChainHead(entry.seq, entry.hash)
        if expected_head and last.count > expected_head.count:
            problem = f"entry {last.count} stands beyond the head, which is {expected_head.count}"
            return Flaw(last.count, Tampering.INSERTED, problem)
    return _cut_or_rewritten(last, expected_head) if is_to_end else None


def _misplaced(entry: ChainEntry, last: ChainHead, rest: Iterator[ChainEntry]) -> Flaw | None:
    """Whether an entry of another number should stand here. Reads `rest` to its end only if so."""
    seq, expected = entry.seq, last.count + 1
    if seq == expected:
        return None
    if seq < expected:
        return Flaw(seq, Tampering.INSERTED, f"entry {seq} stands there once more, after entry {last.count}")
    if any(later.seq == expected for later in rest):
        return Flaw(expected, Tampering.SWAPPED, f"entry {seq} stands where entry {expected} belongs")
    return Flaw(expected, Tampering.DELETED, f"entry {expected} is missing; entry {seq} follows")


def _unlinked(entry: ChainEntry, before: ChainHead, last: ChainHead, rest: Iterator[ChainEntry]) -> Flaw | None:
    """Whether the entry was sealed on another one than stands before it, and what that tells. Reads `rest` if so."""
    seq = entry.seq
    if entry.prev_hash == last.hash:
        return None
    if last.count and entry.prev_hash == before.hash:
        return Flaw(last.count, Tampering.INSERTED, f"entry {last.count} was put before entry {seq}, which skips it")
    if any(later.prev_hash == last.hash for later in rest):
        return Flaw(seq, Tampering.SWAPPED, f"entry {seq} stands where one belongs that comes later")
    if _was_moved_up(entry):
        return Flaw(seq, Tampering.DELETED, f"an entry {seq} was removed, and those after it have new numbers")
    if last.count and _is_as_sealed(entry):
        return Flaw(last.count, Tampering.EDITED, f"entry {last.count} is not the one that entry {seq} was sealed on")
    return Flaw(seq, Tampering.EDITED, f"entry {seq} names another hash than that of the entry before it")


def _altered(entry: ChainEntry) -> Flaw | None:
    """Whether the entry is not what was sealed."""
    if _is_as_sealed(entry):
        return None
    return Flaw(entry.seq, Tampering.EDITED, f"entry {entry.seq} is not what its hash was made of")


def _is_as_sealed(entry: ChainEntry) -> bool:
    """Whether its hash is that of its fields; what could not have been sealed is not."""
    try:
        return entry.fields["seq"] == entry.seq and entry_hash(entry.prev_hash, entry.fields) == entry.hash
    except (KeyError, ValueError):
        return False


def _was_moved_up(entry: ChainEntry) -> bool:
    """Whether it was sealed under a number a little higher."""
    numbers = range(entry.seq + 1, entry.seq + 1 + MOST_MOVED)
    return any(_is_as_sealed(replace(entry, seq=seq, fields={**entry.fields, "seq": seq})) for seq in numbers)


def _cut_or_rewritten(last: ChainHead, head: ChainHead | None) -> Flaw | None:
    """Whether a chain that agrees with itself ends where the head says."""
    if head is None or last == head:
        return None
    if last.count < head.count:
        return Flaw(last.count + 1, Tampering.TRUNCATED, f"the chain ends after {last.count} of {head.count} entries")
    problem = f"entry {last.count}, or one before it, was replaced and every hash after it remade"
    return Flaw(last.count, Tampering.REWRITTEN, problem)
