"""The chain of a tenant's ledger: each kind of tampering is found and named, at the first bad entry."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.ledger import GENESIS, ChainEntry, ChainHead, Field, Tampering, entry_hash, verify_chain

Chain = list[ChainEntry]


def sealed(prev_hash: str, fields: dict[str, Field]) -> ChainEntry:
    seq = fields["seq"]
    assert isinstance(seq, int)
    return ChainEntry(seq, prev_hash, entry_hash(prev_hash, fields), fields)


def a_chain(length: int = 6, note: str = "") -> Chain:
    chain: Chain = []
    for seq in range(1, length + 1):
        prev_hash = chain[-1].hash if chain else GENESIS
        chain.append(sealed(prev_hash, {"seq": seq, "tenant_id": "ten", "cost_micro": seq * 10, "note": note}))
    return chain


def head_of(chain: Chain) -> ChainHead:
    return ChainHead(len(chain), chain[-1].hash if chain else GENESIS)


def renumbered(entry: ChainEntry, seq: int) -> ChainEntry:
    return replace(entry, seq=seq, fields={**entry.fields, "seq": seq})


def edited(entry: ChainEntry, **fields: Field) -> ChainEntry:
    return replace(entry, fields={**entry.fields, **fields})


def resealed(entry: ChainEntry, **fields: Field) -> ChainEntry:
    return sealed(entry.prev_hash, {**entry.fields, **fields})


def edit(chain: Chain) -> Chain:
    return [*chain[:2], edited(chain[2], cost_micro=0), *chain[3:]]


def edit_and_reseal(chain: Chain) -> Chain:
    return [*chain[:2], resealed(chain[2], cost_micro=0), *chain[3:]]


def edit_the_link(chain: Chain) -> Chain:
    return [*chain[:2], replace(chain[2], prev_hash="f" * 64), *chain[3:]]


def edit_the_hash(chain: Chain) -> Chain:
    return [*chain[:2], replace(chain[2], hash="f" * 64), *chain[3:]]


def delete(chain: Chain) -> Chain:
    return [*chain[:2], *chain[3:]]


def delete_and_renumber(chain: Chain) -> Chain:
    return [*chain[:2], *(renumbered(entry, entry.seq - 1) for entry in chain[3:])]


def delete_the_first(chain: Chain) -> Chain:
    return chain[1:]


def swap(chain: Chain) -> Chain:
    return [*chain[:2], chain[3], chain[2], *chain[4:]]


def swap_and_renumber(chain: Chain) -> Chain:
    return [*chain[:2], renumbered(chain[3], 3), renumbered(chain[2], 4), *chain[4:]]


def insert(chain: Chain) -> Chain:
    return [*chain[:2], sealed(chain[1].hash, {"seq": 2, "cost_micro": -5}), *chain[2:]]


def insert_and_renumber(chain: Chain) -> Chain:
    new = sealed(chain[1].hash, {"seq": 3, "cost_micro": -5})
    return [*chain[:2], new, *(renumbered(entry, entry.seq + 1) for entry in chain[2:])]


def append(chain: Chain) -> Chain:
    return [*chain, sealed(chain[-1].hash, {"seq": 7, "cost_micro": -5})]


def truncate(chain: Chain) -> Chain:
    return chain[:4]


def empty(chain: Chain) -> Chain:
    return chain[:0]


def rewrite(chain: Chain) -> Chain:
    return a_chain(len(chain), note="cheaper")


@pytest.mark.parametrize(
    ("tamper", "kind", "seq"),
    [
        (edit, Tampering.EDITED, 3),
        (edit_and_reseal, Tampering.EDITED, 3),
        (edit_the_link, Tampering.EDITED, 3),
        (edit_the_hash, Tampering.EDITED, 3),
        (delete, Tampering.DELETED, 3),
        (delete_and_renumber, Tampering.DELETED, 3),
        (delete_the_first, Tampering.DELETED, 1),
        (swap, Tampering.SWAPPED, 3),
        (swap_and_renumber, Tampering.SWAPPED, 3),
        (insert, Tampering.INSERTED, 2),
        (insert_and_renumber, Tampering.INSERTED, 3),
        (append, Tampering.INSERTED, 7),
        (truncate, Tampering.TRUNCATED, 5),
        (empty, Tampering.TRUNCATED, 1),
        (rewrite, Tampering.REWRITTEN, 6),
    ],
)
def test_each_kind_of_tampering_is_named_at_the_first_bad_entry(
    tamper: Callable[[Chain], Chain], kind: Tampering, seq: int
) -> None:
    chain = a_chain()
    flaw = verify_chain(tamper(chain), head_of(chain))
    assert flaw is not None
    assert (flaw.kind, flaw.seq) == (kind, seq)
    assert str(seq) in flaw.problem or kind is Tampering.TRUNCATED


@pytest.mark.parametrize("length", [0, 1, 50])
def test_a_sound_chain_has_no_flaw(length: int) -> None:
    chain = a_chain(length)
    assert verify_chain(chain) is None
    assert verify_chain(iter(chain), head_of(chain)) is None


def test_an_older_head_is_checked_with_the_entries_up_to_it() -> None:
    chain = a_chain()
    assert verify_chain(chain[:3], ChainHead(3, chain[2].hash)) is None


def test_an_entry_of_another_chain_does_not_fit_in() -> None:
    chain, other = a_chain(), a_chain(note="other")
    assert verify_chain([*chain[:2], other[2], *chain[3:]]) is not None


changes = st.sampled_from(["cost_micro", "note", "tenant_id"])


@given(st.integers(1, 12), st.data())
def test_any_single_change_is_found_no_later_than_where_it_was_made(length: int, data: st.DataObject) -> None:
    chain = a_chain(length)
    at = data.draw(st.integers(0, length - 1))
    name = data.draw(changes)
    value: Any = data.draw(st.integers(-1000, 0) | st.text(min_size=1))
    chain[at] = edited(chain[at], **{name: value}) if chain[at].fields[name] != value else edited(chain[at], extra=1)
    flaw = verify_chain(chain)
    assert flaw is not None
    assert flaw.seq == at + 1


def test_the_hash_does_not_hang_on_the_order_of_fields_and_tells_types_apart() -> None:
    assert entry_hash(GENESIS, {"seq": 1, "a": "x"}) == entry_hash(GENESIS, {"a": "x", "seq": 1})
    assert entry_hash(GENESIS, {"seq": 1, "a": "1"}) != entry_hash(GENESIS, {"seq": 1, "a": 1})
    assert entry_hash(GENESIS, {"seq": 1, "a": None}) != entry_hash(GENESIS, {"seq": 1, "a": "null"})
    assert entry_hash(GENESIS, {"seq": 1}) != entry_hash("1" * 64, {"seq": 1})


def test_the_hash_is_what_the_receipt_says_it_is() -> None:
    """Fixed for good: receipts that tenants hold must verify with every later version."""
    expected = "15fae08f64ba607a8aa3b0d7225fd8345039811cb82e42348a193f29e0792f78"
    assert entry_hash(GENESIS, {"seq": 1, "cost_micro": 10, "note": "\u00e9"}) == expected


@pytest.mark.parametrize(
    "fields", [{"a": 1}, {"seq": 1, "hash": "x"}, {"seq": 1, "prev_hash": "x"}, {"seq": 1, "a": 0.5}, {"seq": True}]
)
def test_what_has_no_single_text_is_not_sealed(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"seq|neither"):
        entry_hash(GENESIS, fields)
