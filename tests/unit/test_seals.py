"""Seals bind all heads, and show each owner its own; the SDK says the same as the server, by code of its own."""

from dataclasses import asdict
from typing import Any

import pytest
from corral.chains import canonical_json as sdk_canonical_json
from corral.chains import entry_hash as sdk_entry_hash
from corral.seals import verify_seal
from corral.signed import NotProven, key_id_of, public_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from domain.ledger import GENESIS, canonical_json, entry_hash
from domain.seals import DAY_US, SETTLE_US, SealedHead, due_moments, path_to_root, seal_root
from store.signing import Keyring
from store.signing import key_id_of as server_key_id

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PRIVATE = Ed25519PrivateKey.generate()
KEYRING = Keyring(PRIVATE, {server_key_id(PRIVATE.public_key()): PRIVATE.public_key()})
TRUSTED = {KEYRING.key_id: PRIVATE.public_key()}


def heads(count: int) -> list[SealedHead]:
    return [SealedHead(f"ledger:ten_{number}", number + 1, f"{number:064x}", "a" * 64) for number in range(count)]


def a_proof(sealed: list[SealedHead], chain: str) -> dict[str, Any]:
    document = {
        "kind": "corral.seal", "version": 1, "number": 1, "until_us": 5, "sealed_us": 6, "root": seal_root(sealed),
        "previous": GENESIS, "key_id": KEYRING.key_id,
    }  # fmt: skip
    own = next(head for head in sealed if head.chain == chain)
    path = [asdict(step) for step in path_to_root(sealed, chain)]
    return {"seal": document, "signature": KEYRING.sign(document), "head": asdict(own), "path": path}


@given(values)
def test_server_and_sdk_write_a_document_alike(document: object) -> None:
    assert sdk_canonical_json(document) == canonical_json(document).encode("ascii")


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: "hash" not in name), st.text() | st.integers()))
def test_server_and_sdk_hash_an_entry_alike(fields: dict[str, str | int]) -> None:
    entry = {**fields, "seq": 1}
    assert sdk_entry_hash({**entry, "prev_hash": GENESIS}) == entry_hash(GENESIS, entry)


def test_server_and_sdk_name_a_key_alike() -> None:
    assert key_id_of(public_key(KEYRING.public_pem(KEYRING.key_id))) == KEYRING.key_id


@given(st.integers(1, 40), st.data())
def test_every_head_is_proven_to_be_in_the_seal(count: int, data: st.DataObject) -> None:
    sealed = heads(count)
    chain = data.draw(st.sampled_from(sealed)).chain
    proven = verify_seal(a_proof(sealed, chain), TRUSTED)
    assert (proven.chain, proven.count) == (chain, next(head.count for head in sealed if head.chain == chain))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_a_head_that_was_not_sealed_is_not_proven(count: int) -> None:
    sealed = heads(count)
    for field, other in (("count", 99), ("hash", "f" * 64), ("chain", "ledger:ten_x"), ("links", "b" * 64)):
        proof = a_proof(sealed, "ledger:ten_0")
        proof["head"][field] = other
        with pytest.raises(NotProven, match="not in the seal"):
            verify_seal(proof, TRUSTED)


def test_a_seal_that_was_changed_or_signed_by_a_stranger_is_not_proven() -> None:
    proof = a_proof(heads(3), "ledger:ten_1")
    for field in proof["seal"]:
        changed = {**proof, "seal": {**proof["seal"], field: "x"}}
        with pytest.raises(NotProven):
            verify_seal(changed, TRUSTED)
    with pytest.raises(NotProven, match="not among those trusted"):
        verify_seal(proof, {})


def test_a_leaf_cannot_be_passed_off_as_a_node() -> None:
    sealed = heads(2)
    assert seal_root(sealed[:1]) != seal_root(sealed)
    assert seal_root([]) != seal_root(sealed[:1])


@pytest.mark.parametrize(
    ("last", "now", "due"),
    [
        (None, 3 * DAY_US + SETTLE_US, [3 * DAY_US]),
        (None, 3 * DAY_US + SETTLE_US - 1, [2 * DAY_US]),
        (3 * DAY_US, 4 * DAY_US, []),
        (3 * DAY_US, 4 * DAY_US + SETTLE_US, [4 * DAY_US]),
        (3 * DAY_US, 6 * DAY_US + 2 * SETTLE_US, [4 * DAY_US, 5 * DAY_US, 6 * DAY_US]),
        (3 * DAY_US + 5, 4 * DAY_US + SETTLE_US, [4 * DAY_US]),
    ],
)
def test_each_midnight_has_its_seal_however_long_nobody_led(last: int | None, now: int, due: list[int]) -> None:
    assert due_moments(last, now) == due
