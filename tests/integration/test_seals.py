"""Seals find what a chain alone cannot: a database that was rewritten so that it agrees with itself."""

from collections.abc import Callable
from pathlib import Path

import pytest
from audit_parts import rewrite_chain
from builders import a_tenant
from ledger_parts import a_keyring, a_line
from sqlalchemy import Engine, text
from sqlmodel import Session, col, select

from control.sealer import Sealer
from domain.errors import StaleLeader
from domain.ids import TenantId
from domain.ledger import GENESIS, entry_hash
from domain.seals import DAY_US
from store import audit, ledger, seals
from store.adjustments import adjust
from store.audit_check import all_checks
from store.clock import now_us
from store.engine import reading, writing
from store.ledger_check import Finding, check_everything, check_tenant
from store.migrations.triggers import drop_ledger_triggers
from store.seal_files import SealFiles
from store.signing import Keyring, SigningKeyUnusable, new_signing_key, read_keyring
from store.tables import LedgerEntry, Seal, Tenant


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return a_keyring(tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> SealFiles:
    return SealFiles(f"file://{tmp_path}/seals")


@pytest.fixture
def tenant_id(engine: Engine, keyring: Keyring, files: SealFiles) -> str:
    """A tenant of five lines, sealed after the second and the fourth; the third is an adjustment."""
    sealer = Sealer(engine, keyring, files)
    with writing(engine) as session:
        tenant_id = a_tenant(session)
        a_line(session, tenant_id, 0, 10_000_000)
        a_line(session, tenant_id, 10_000_000, 10_000_000)
    sealer.seal_now()
    with writing(engine) as session:
        adjust(session, keyring, TenantId(tenant_id), -5, "sorry", "key_x")
        a_line(session, tenant_id, 20_000_000, 10_000_000)
    sealer.seal_now()
    with writing(engine) as session:
        a_line(session, tenant_id, 30_000_000, 10_000_000)
        drop_ledger_triggers(session.connection())  # whoever rewrites a database does not stop at them
    return tenant_id


def findings(engine: Engine, keyring: Keyring, files: SealFiles | None) -> list[Finding]:
    with reading(engine) as session:
        return check_everything(session, keyring, files)


def lines(session: Session, tenant_id: str) -> list[LedgerEntry]:
    query = select(LedgerEntry).where(LedgerEntry.tenant_id == tenant_id).order_by(col(LedgerEntry.seq))
    return list(session.exec(query))


def rechain(session: Session, tenant_id: str, entries: list[LedgerEntry]) -> None:
    """Number and hash the lines anew, and let the tenant's head agree."""
    prev_hash = GENESIS
    for seq, entry in enumerate(entries, 1):
        entry.seq, entry.prev_hash = seq, prev_hash
        entry.hash = prev_hash = entry_hash(prev_hash, ledger.sealed_fields(entry))
        session.flush()
    tenant = session.get_one(Tenant, tenant_id)
    tenant.chain_length, tenant.chain_head = len(entries), prev_hash


def edit(session: Session, entries: list[LedgerEntry]) -> list[LedgerEntry]:
    entries[1].cost_micro = 0
    return entries


def delete(session: Session, entries: list[LedgerEntry]) -> list[LedgerEntry]:
    session.delete(entries[1])
    session.flush()
    return [entries[0], *entries[2:]]


def swap(session: Session, entries: list[LedgerEntry]) -> list[LedgerEntry]:
    entries[1].seq, entries[3].seq = 101, 102
    session.flush()
    return [entries[0], entries[3], entries[2], entries[1], entries[4]]


def truncate(session: Session, entries: list[LedgerEntry]) -> list[LedgerEntry]:
    for entry in entries[1:]:
        session.delete(entry)
    session.flush()
    return entries[:1]


Tampering = Callable[[Session, list[LedgerEntry]], list[LedgerEntry]]


@pytest.mark.parametrize("tamper", [edit, delete, swap, truncate])
@pytest.mark.parametrize("is_consistent", [True, False])
def test_the_first_bad_line_is_named_even_if_the_database_agrees_with_itself(
    engine: Engine, keyring: Keyring, files: SealFiles, tenant_id: str, tamper: Tampering, is_consistent: bool
) -> None:
    assert findings(engine, keyring, files) == []
    with writing(engine) as session:
        if is_consistent:
            left = tamper(session, lines(session, tenant_id))
            rechain(session, tenant_id, left)
            session.flush()
            assert ledger.verify(session, tenant_id)[1] is None, "the chain alone looks sound"
        else:
            tamper(session, lines(session, tenant_id))
    (found,) = findings(engine, keyring, files)
    assert (found.where, found.seq) == (f"ledger:{tenant_id}", 2)
    assert [each.where for each in findings(engine, keyring, None)] == [f"ledger:{tenant_id}"], "seals inside tell too"


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_a_chain_is_looked_at_in_pieces_with_its_seals(
    engine: Engine, keyring: Keyring, tenant_id: str, at_once: int
) -> None:
    with writing(engine) as session:
        found = check_tenant(session, tenant_id, keyring, at_once)
        assert (found.upto.count, found.seals, found.flaw) == (5, 2, None)
        rechain(session, tenant_id, edit(session, lines(session, tenant_id)))
        session.flush()
        flaw = check_tenant(session, tenant_id, keyring, at_once).flaw
    assert flaw is not None
    assert flaw.seq == 2


def test_an_audit_that_was_rewritten_as_a_whole_is_named(engine: Engine, keyring: Keyring, files: SealFiles) -> None:
    with writing(engine) as session:
        for number in range(3):
            audit.append(session, audit.Change(audit.PLATFORM, f"step {number}"))
    Sealer(engine, keyring, files).seal_now()
    assert findings(engine, keyring, files) == []
    with engine.begin() as connection:
        rewrite_chain(connection, audit.PLATFORM, actor="nobody")
    with reading(engine) as session:
        assert [check.flaw for check in all_checks(session)] == [None], "the chain alone looks sound"
    assert [(each.where, each.seq) for each in findings(engine, keyring, files)] == [("audit:platform", 1)]
    with engine.begin() as connection:
        connection.execute(text("UPDATE audit_entry SET actor = 'x' WHERE seq = 2"))
    assert {(each.where, each.seq) for each in findings(engine, keyring, None)} == {("audit:platform", 2)}


def test_an_adjustment_that_the_server_never_signed_is_named(
    engine: Engine, keyring: Keyring, files: SealFiles, tenant_id: str
) -> None:
    with writing(engine) as session:
        a_line(session, tenant_id, 0, 0, kind="adjustment", cause="adjustment", cost_micro=-(10**9), signature="AAAA")
    (found,) = findings(engine, keyring, files)
    assert found.seq == 6
    assert "never signed" in found.problem


def test_a_seal_that_was_removed_replaced_or_forged_is_named(
    engine: Engine, keyring: Keyring, files: SealFiles, tenant_id: str, tmp_path: Path
) -> None:
    copy = tmp_path / "seals" / "seal-000001.jsonl"
    kept = copy.read_bytes()
    copy.unlink()
    assert [each.where for each in findings(engine, keyring, files)] == ["seal 1"]
    copy.write_bytes(kept.replace(b'"count":2', b'"count":1', 1))
    assert "seal 1" in {each.where for each in findings(engine, keyring, files)}
    copy.write_bytes(b"nothing")
    assert [each.where for each in findings(engine, keyring, files)] == ["seal 1"]
    copy.write_bytes(kept)
    with writing(engine) as session:
        session.connection().execute(text("DELETE FROM seal_head"))
        session.connection().execute(text("DELETE FROM seal"))
    assert {each.where for each in findings(engine, keyring, files)} == {"seal 1", "seal 2"}
    other = new_signing_key(tmp_path / "other.key")
    assert any("is unknown" in each.problem for each in findings(engine, other, files))


def test_a_missed_day_is_sealed_as_it_was(engine: Engine, keyring: Keyring, files: SealFiles) -> None:
    with writing(engine) as session:
        midnight = now_us(session) // DAY_US * DAY_US
        tenant_id = a_tenant(session)
        for days in (3, 2, 1):
            a_line(session, tenant_id, 0, 1_000_000, posted_us=midnight - days * DAY_US + 1)
        seals.make_seal(session, keyring, midnight - 3 * DAY_US)
    Sealer(engine, keyring, files).seal_if_due()
    Sealer(engine, keyring, files).seal_if_due()
    with reading(engine) as session:
        made = session.exec(select(Seal).order_by(col(Seal.number))).all()
        days = [(seal.until_us - midnight) // DAY_US for seal in made]
        assert days in ([-3, -2, -1, 0], [-3, -2, -1])  # the latter in the minute after midnight
        counts = [[head.count for head in seals.heads_of(session, seal.number)] for seal in made]
        assert counts[:3] == [[], [1], [2]]
        assert all(seal.stored_us for seal in made)
    assert files.numbers() == {seal.number for seal in made}
    assert findings(engine, keyring, files) == []


def test_who_no_longer_leads_seals_nothing(engine: Engine, keyring: Keyring, files: SealFiles) -> None:
    with writing(engine) as session:
        a_line(session, a_tenant(session), 0, 1_000_000)
    with pytest.raises(StaleLeader):
        Sealer(engine, keyring, files, epoch=7).seal_if_due()
    assert files.numbers() == frozenset()


def test_a_rotated_key_signs_and_those_before_it_still_prove(
    engine: Engine, keyring: Keyring, files: SealFiles, tenant_id: str, tmp_path: Path
) -> None:
    newer = new_signing_key(tmp_path / "signing.key")
    assert list(newer.public) == [newer.key_id, keyring.key_id]
    assert (tmp_path / "signing.key").stat().st_mode & 0o777 == 0o600
    Sealer(engine, newer, files).seal_now()
    assert findings(engine, newer, files) == []
    assert any("is unknown" in each.problem for each in findings(engine, keyring, files))
    (tmp_path / "signing.key").chmod(0o644)
    with pytest.raises(SigningKeyUnusable, match="others may read"):
        read_keyring(tmp_path / "signing.key")
