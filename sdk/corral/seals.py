"""Checks a seal without the server: its signature, that a chain's head is in it, and that a receipt agrees with it."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from corral.chains import canonical_json, first_bad
from corral.signed import Document, NotProven, TrustedKeys, check_signature

KIND = "corral.seal"
VERSION = 1


@dataclass(frozen=True, slots=True)
class SealProven:
    """What a seal that holds says of one chain."""

    number: int
    until_us: int
    key_id: str
    chain: str
    count: int
    hash: str


def verify_seal(proof: Document, keys: TrustedKeys) -> SealProven:
    """Check a seal's signature, and that the head is in it; as it was read from JSON.

    Raises:
        NotProven: what does not hold.
    """
    try:
        seal, head = proof["seal"], proof["head"]
        if seal["kind"] != KIND or seal["version"] != VERSION:
            raise NotProven(f"this is no seal of version {VERSION}")
        check_signature(seal, proof["signature"], keys)
        if head is None:
            raise NotProven("the chain had no entries when this seal was made")
        if _root(head, proof["path"]) != seal["root"]:
            raise NotProven("the head is not in the seal")
        return SealProven(
            seal["number"], seal["until_us"], seal["key_id"], head["chain"], int(head["count"]), head["hash"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NotProven(f"this is no seal: {error!r}") from error


def compare_with_seal(receipt: Document, sealed: SealProven, chain: Iterable[Document] | None) -> int:
    """How many of a receipt's entries the seal covers, having been proven each by itself.

    Without the chain, only an entry that is the sealed head itself can be compared.

    Raises:
        NotProven: the seal is of another chain, or says otherwise than the receipt.
    """
    if sealed.chain != f"ledger:{receipt['tenant_id']}":
        raise NotProven(f"the seal's proof is for {sealed.chain}, the receipt is of {receipt['tenant_id']}")
    hashes = {sealed.count: sealed.hash}
    if chain is not None:
        hashes = _hashes(chain, receipt["tenant_id"], sealed)
    for link in receipt["entries"]:
        if link["seq"] in hashes and hashes[link["seq"]] != link["hash"]:
            raise NotProven(f"entry {link['seq']} of the receipt is not the one that was sealed")
    return sum(link["seq"] in hashes for link in receipt["entries"])


def _hashes(chain: Iterable[Document], tenant_id: str, sealed: SealProven) -> dict[int, str]:
    """The hash of each sealed entry of a chain that leads to the sealed head."""
    entries = [{**link["fields"], "prev_hash": link["prev_hash"], "hash": link["hash"]} for link in chain]
    if any(entry["tenant_id"] != tenant_id for entry in entries):
        raise NotProven("the chain is another tenant's")
    if (flaw := first_bad(entries, sealed.count, sealed.hash)) is not None:
        raise NotProven(f"the chain does not lead to what was sealed: {flaw[1]}")
    return {entry["seq"]: entry["hash"] for entry in entries if entry["seq"] <= sealed.count}


def _root(head: Document, path: Sequence[Any]) -> str:
    leaf = {name: head[name] for name in ("chain", "count", "hash", "links")}
    current = hashlib.sha256(b"\0" + canonical_json(leaf)).digest()
    for step in path:
        beside = bytes.fromhex(step["hash"])
        pair = beside + current if step["side"] == "left" else current + beside
        current = hashlib.sha256(b"\1" + pair).digest()
    return current.hex()
