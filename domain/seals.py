"""What binds the heads of many chains into one hash, from which each owner can be shown its own alone."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from domain.ledger import canonical_json

DAY_US = 86_400_000_000
SETTLE_US = 60_000_000
"""What began before midnight has been committed by then."""


@dataclass(frozen=True, slots=True)
class SealedHead:
    """How far a chain went when it was sealed."""

    chain: str
    """What is chained, and whose: `ledger:ten_…`."""
    count: int
    hash: str
    """Of the last entry."""
    links: str
    """`links_hash` of the entries that came since the seal before."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step from a leaf to the root: the hash beside it, and on which side that stands."""

    side: Literal["left", "right"]
    hash: str


def links_hash(hashes: Iterable[str]) -> str:
    """SHA-256, as hex, over the hashes of entries, a line for each."""
    digest = hashlib.sha256()
    for each in hashes:
        digest.update(each.encode("ascii") + b"\n")
    return digest.hexdigest()


def seal_root(heads: Sequence[SealedHead]) -> str:
    """The root of a Merkle tree over the heads, in the order of their names."""
    layer = _leaves(heads)
    while len(layer) > 1:
        layer = _above(layer)
    return layer[0] if layer else hashlib.sha256(b"").hexdigest()


def path_to_root(heads: Sequence[SealedHead], chain: str) -> tuple[Step, ...]:
    """The steps from one chain's leaf to the root. They tell nothing of the other chains but how many there may be.

    Raises:
        ValueError: there is no such chain.
    """
    place = sorted(head.chain for head in heads).index(chain)
    layer, steps = _leaves(heads), []
    while len(layer) > 1:
        beside = place ^ 1
        if beside < len(layer):
            steps.append(Step("left" if beside < place else "right", layer[beside]))
        layer, place = _above(layer), place // 2
    return tuple(steps)


def due_moments(last_until_us: int | None, now_us: int) -> list[int]:
    """The midnights, UTC, up to which a seal is still to be made: each one missed, in order; at first the last one."""
    latest = (now_us - SETTLE_US) // DAY_US * DAY_US
    first = latest if last_until_us is None else (last_until_us // DAY_US + 1) * DAY_US
    return list(range(first, latest + 1, DAY_US))


def _leaves(heads: Sequence[SealedHead]) -> list[str]:
    ordered = sorted(heads, key=lambda head: head.chain)
    return [hashlib.sha256(b"\0" + canonical_json(asdict(head)).encode("ascii")).hexdigest() for head in ordered]


def _above(layer: Sequence[str]) -> list[str]:
    """The layer above: two make one, and a last one alone goes up as it is."""
    pairs = (layer[place : place + 2] for place in range(0, len(layer), 2))
    return [pair[0] if len(pair) == 1 else _node(*pair) for pair in pairs]


def _node(left: str, right: str) -> str:
    return hashlib.sha256(b"\1" + bytes.fromhex(left) + bytes.fromhex(right)).hexdigest()
