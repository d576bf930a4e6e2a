"""The audit's chains: what is done to them is found, and where; concurrent changes stand one after the other."""

import contextlib
import threading
from typing import Any

import pytest
from audit_parts import drop_audit_triggers
from builders import a_tenant
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from domain.ids import TenantId
from domain.ledger import Tampering, entry_hash
from store.audit import PLATFORM, AuditFilter, Change, append, entries
from store.audit_check import ChainCheck, Reached, all_checks, verify
from store.engine import reading, writing

ALL = AuditFilter()


def a_chain(engine: Engine, chain: str = PLATFORM, length: int = 6) -> None:
    for number in range(length):
        with writing(engine) as session:
            append(session, Change(chain, f"step {number}", changes='{"n":1}'))


def run(engine: Engine, *statements: str) -> None:
    """What somebody does who may write to the database."""
    with engine.begin() as connection:
        drop_audit_triggers(connection)
        for statement in statements:
            connection.execute(text(statement))


def checks(engine: Engine, scope: TenantId | None = None) -> dict[str, ChainCheck]:
    with reading(engine) as session:
        return {each.chain: each for each in all_checks(session, scope)}


def in_pieces(engine: Engine, scope: TenantId | None, chains: int, most: int) -> list[ChainCheck]:
    """As a client asks: again and again, from where the last answer ended."""
    found: list[ChainCheck] = []
    reached: Reached | None = None
    while True:
        with reading(engine) as session:
            some, reached = verify(session, scope, reached, chains, most)
        assert len(some) <= chains
        found += some
        if reached is None:
            return found


def resealed_fifth(engine: Engine) -> str:
    """An update that edits the fifth entry and makes its hash anew."""
    with reading(engine) as session:
        fifth: Any = next(row for row in entries(session, None, ALL, 100, None) if row.seq == 5)
    fields = {name: value for name, value in fifth._mapping.items() if name not in ("hash", "prev_hash")}
    sealed = entry_hash(fifth.prev_hash, {**fields, "what": "nothing"})
    return f"UPDATE audit_entry SET what = 'nothing', hash = '{sealed}' WHERE seq = 5"


TAMPERINGS = {
    "edited": (["UPDATE audit_entry SET actor = 'somebody' WHERE seq = 3"], 3, Tampering.EDITED),
    "deleted": (["DELETE FROM audit_entry WHERE seq = 3"], 3, Tampering.DELETED),
    "swapped": (
        [
            "UPDATE audit_entry SET seq = 30 WHERE seq = 3",
            "UPDATE audit_entry SET seq = 3 WHERE seq = 4",
            "UPDATE audit_entry SET seq = 4 WHERE seq = 30",
        ],
        3,
        Tampering.SWAPPED,
    ),
    "truncated": (["DELETE FROM audit_entry WHERE seq > 4"], 5, Tampering.TRUNCATED),
    "emptied": (["DELETE FROM audit_entry"], 1, Tampering.TRUNCATED),
    "its head set back": (
        ["DELETE FROM audit_entry WHERE seq > 4", "UPDATE audit_chain SET length = 4"],
        4,
        Tampering.REWRITTEN,
    ),
    "its head removed": (["DELETE FROM audit_chain"], 1, Tampering.INSERTED),
}


def test_chains_are_looked_at_in_pieces(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, other = sorted(a_tenant(session, name) for name in ("lab", "other"))
    for chain in (PLATFORM, tenant_id, other):
        a_chain(engine, chain)
    pieces = in_pieces(engine, None, 200, 2)
    assert [(each.chain, each.upto.count) for each in pieces[:5]] == [
        (PLATFORM, 2), (PLATFORM, 4), (PLATFORM, 6), (PLATFORM, 6), (tenant_id, 2)
    ]  # fmt: skip
    assert {each.chain: each.upto.count for each in pieces} == dict.fromkeys((PLATFORM, tenant_id, other), 6)
    assert all(each.flaw is None for each in pieces)
    assert [each.chain for each in in_pieces(engine, None, 1, 100)] == [PLATFORM, tenant_id, other]
    assert {each.chain for each in in_pieces(engine, TenantId(other), 1, 2)} == {other}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_flaw_is_found_in_whatever_pieces(engine: Engine, name: str) -> None:
    a_chain(engine)
    run(engine, *TAMPERINGS[name][0])
    for most in (1, 2, 3):
        flaws = [each.flaw for each in in_pieces(engine, None, 200, most) if each.flaw is not None]
        assert [flaw.seq for flaw in flaws] == [TAMPERINGS[name][1]]


@pytest.mark.parametrize("name", TAMPERINGS)
def test_what_was_done_to_a_chain_is_named_with_the_first_bad_entry(engine: Engine, name: str) -> None:
    statements, seq, kind = TAMPERINGS[name]
    a_chain(engine)
    assert checks(engine)[PLATFORM].flaw is None
    run(engine, *statements)
    flaw = checks(engine)[PLATFORM].flaw
    assert flaw is not None
    assert (flaw.seq, flaw.kind) == (seq, kind)


def test_an_entry_that_was_edited_and_sealed_anew_does_not_fit_the_next(engine: Engine) -> None:
    a_chain(engine)
    run(engine, resealed_fifth(engine))
    flaw = checks(engine)[PLATFORM].flaw
    assert flaw is not None
    assert flaw.seq == 5


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_entry SET actor = 'x'",
        "DELETE FROM audit_entry",
        "UPDATE audit_chain SET length = length - 1",
        "DELETE FROM audit_chain",
    ],
)
def test_the_database_itself_refuses_to_change_what_was_written(engine: Engine, statement: str) -> None:
    a_chain(engine, length=2)
    with pytest.raises(DBAPIError), engine.begin() as connection:
        connection.execute(text(statement))
    assert checks(engine)[PLATFORM].flaw is None


def test_a_change_that_fails_leaves_no_entry(engine: Engine) -> None:
    with contextlib.suppress(DBAPIError), writing(engine) as session:
        append(session, Change(PLATFORM, "failed"))
        session.connection().execute(text("SELECT nothing"))
    assert checks(engine) == {}


def test_changes_at_once_in_several_chains_stand_one_after_the_other(engine: Engine) -> None:
    with writing(engine) as session:
        tenants = [a_tenant(session, f"lab-{number}") for number in range(3)]

    def work(number: int) -> None:
        for step in range(5):
            with writing(engine) as session:
                for chain in tenants if number % 2 else reversed(tenants):
                    append(session, Change(chain, f"{number}.{step}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = checks(engine)
    assert [(found[tenant].length, found[tenant].flaw) for tenant in tenants] == [(30, None)] * 3


def test_in_a_chain_time_and_ids_never_run_back(engine: Engine) -> None:
    with writing(engine) as session:
        for number in range(50):
            append(session, Change(PLATFORM, str(number)))
    a_chain(engine, length=5)
    with reading(engine) as session:
        rows = entries(session, None, ALL, 100, None)
    assert [row.seq for row in rows] == list(range(55, 0, -1))
    assert [row.at_us for row in rows] == sorted((row.at_us for row in rows), reverse=True)


def test_a_tenant_sees_its_own_tree_and_the_staff_without_its_address(engine: Engine) -> None:
    with writing(engine) as session:
        lab, other = a_tenant(session, "lab"), a_tenant(session, "other")
        team = a_tenant(session, "team", parent=lab)
        for chain in (lab, other, team):
            append(session, Change(chain, "suspend", is_staff=True, address="10.0.0.1"))
    with reading(engine) as session:
        mine = entries(session, TenantId(lab), ALL, 10, None)
        everything = entries(session, None, ALL, 10, None)
    assert {row.chain for row in mine} == {lab, team}
    assert {row.address for row in mine} == {""}
    assert {(row.chain, row.address) for row in everything if row.chain == PLATFORM} == {(PLATFORM, "10.0.0.1")}
    assert len(everything) == 6
    assert set(checks(engine, TenantId(lab))) == {lab, team}
