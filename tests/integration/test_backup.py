"""What was copied while everything ran comes back whole, into an empty place and nowhere else."""

import json
from pathlib import Path

import pytest
import services
from books import assert_books_agree
from builders import a_job, a_node, a_placement, a_price, a_tenant
from sqlalchemy import Engine, make_url
from sqlmodel import select

from corrald.backup import MANIFEST, POSTGRES, SQLITE, back_up, restore
from corrald.refusals import Refusal
from store.assignments import assign
from store.engine import open_engine, reading, writing
from store.ledger import verify
from store.migrate import is_current
from store.tables import Job, Node


@pytest.fixture
def empty_url(database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The address of an empty database on the same engine."""
    if database_url.startswith("sqlite"):
        return f"sqlite:///{tmp_path / 'restored' / 'corral.db'}"
    services.need_program("pg_dump")
    return request.getfixturevalue("empty_postgres_url")


def a_used_database(engine: Engine) -> tuple[str, str]:
    """A tenant, and a job of it that runs."""
    with writing(engine) as session:
        tenant_id, node_id = a_tenant(session), a_node(session)
        a_price(session, 1_000_000)
        job_id = a_job(session, tenant_id)
        a_job(session, tenant_id)
        assign(session, a_placement(session, job_id, node_id))
    return tenant_id, job_id


def test_a_backup_comes_back_with_its_books_and_places_nothing_until_told(
    engine: Engine, database_url: str, empty_url: str, tmp_path: Path
) -> None:
    tenant_id, job_id = a_used_database(engine)
    storage, keys = tmp_path / "storage", tmp_path / "secrets.key"
    (storage / "logs").mkdir(parents=True)
    (storage / "logs" / "x").write_bytes(b"\x00log\xff")
    keys.write_text("key")
    back_up(database_url, [keys], storage, tmp_path / "backup")
    back_storage, back_keys = tmp_path / "back" / "storage", tmp_path / "back" / "keys"
    restore(tmp_path / "backup", empty_url, back_keys, back_storage)
    assert (back_storage / "logs" / "x").read_bytes() == b"\x00log\xff"
    assert (back_keys / "secrets.key").read_text() == "key"
    assert (back_keys / "secrets.key").stat().st_mode & 0o077 == 0
    restored = open_engine(empty_url)
    assert is_current(restored)
    with reading(restored) as session:
        assert session.get_one(Job, job_id).state == "running"
        assert {node.state for node in session.exec(select(Node))} == {"draining"}
        assert verify(session, tenant_id)[1] is None
        assert_books_agree(session)
    restored.dispose()


def test_nothing_is_written_over(engine: Engine, database_url: str, empty_url: str, tmp_path: Path) -> None:
    a_used_database(engine)
    back_up(database_url, [], None, tmp_path / "backup")
    with pytest.raises(Refusal, match="there already"):
        back_up(database_url, [], None, tmp_path / "backup")
    for full in (database_url, empty_url):
        if full == empty_url:
            restore(tmp_path / "backup", empty_url, tmp_path / "keys", None)
        with pytest.raises(Refusal, match=r"there already|not empty"):
            restore(tmp_path / "backup", full, tmp_path / "keys", None)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "x").touch()
    with pytest.raises(Refusal, match="not empty"):
        restore(tmp_path / "backup", empty_url, tmp_path / "keys", tmp_path / "files")


def test_a_damaged_copy_and_what_is_none_are_refused(database_url: str, empty_url: str, tmp_path: Path) -> None:
    back_up(database_url, [], None, tmp_path / "backup")
    copy = tmp_path / "backup" / (SQLITE if database_url.startswith("sqlite") else POSTGRES)
    with copy.open("r+b") as file:
        file.seek(100)
        file.write(b"damage")
    with pytest.raises(Refusal, match="damaged"):
        restore(tmp_path / "backup", empty_url, tmp_path / "keys", None)
    manifest = tmp_path / "backup" / MANIFEST
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"database": "../../etc/passwd"}))
    for source in (tmp_path / "backup", tmp_path / "nowhere"):
        with pytest.raises(Refusal):
            restore(source, empty_url, tmp_path / "keys", None)


def test_the_password_of_the_database_is_in_no_argument_and_no_message(tmp_path: Path) -> None:
    url = make_url("postgresql://u:very-secret@127.0.0.1:1/x").render_as_string(hide_password=False)
    with pytest.raises(Exception, match=r"(?s)^(?!.*very-secret)"):
        back_up(url, [], None, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
