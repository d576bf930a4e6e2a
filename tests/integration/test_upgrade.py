"""A database that the first release filled is brought up to date, and nothing of it is lost."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, MetaData, Table, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlmodel import select

from domain.ledger import GENESIS, entry_hash
from domain.roles import Role
from store import ledger, prices
from store.engine import WRITES, open_engine, reading, writing
from store.keys import authenticate
from store.ledger_check import check_tenant
from store.migrate import MIGRATIONS, is_current, migrate
from store.node_tokens import node_by_token
from store.tables import Allocation, Attempt, Image, Job

FIRST = "0001"
SECRETS = {"admin": "a" * 64, "tenant": "b" * 64}
GPU_HOUR_US = 3_600_000_000


def id_of(prefix: str, number: int = 0) -> str:
    return f"{prefix}_{number:026d}"


ORG, TEAM, JOB, QUEUED = id_of("ten"), id_of("ten", 1), id_of("job"), id_of("job", 1)
ATTEMPT, ALLOCATION, NODE, GPU = id_of("att"), id_of("all"), id_of("nod"), id_of("gpu")


def sha256(word: str) -> str:
    return hashlib.sha256(word.encode()).hexdigest()


def a_tenant(tenant_id: str, name: str, parent_id: str | None, **chain: Any) -> dict[str, Any]:
    return {
        "id": tenant_id, "name": name, "parent_id": parent_id, "weight": 1, "state": "active",
        "default_isolation": "container", "default_time_limit_us": GPU_HOUR_US, "created_us": 1,
    } | ({"chain_length": 0, "chain_head": ""} | chain)  # fmt: skip


def a_key(key_id: str, role: str, tenant_id: str | None) -> dict[str, Any]:
    return {
        "id": key_id, "tenant_id": tenant_id, "name": f"the {role}", "prefix": f"{role}prefix", "role": role,
        "secret_sha256": sha256(SECRETS[role]), "created_us": 1,
    }  # fmt: skip


def a_quota(tenant_id: str, model: str, **more: Any) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id, "model": model, "gpu_limit_milli": 4000, "gpu_used_milli": 1000, "queued_used": 0,
        "running_used": 0, "served_us": 5,
    } | more  # fmt: skip


def a_job(job_id: str, state: str) -> dict[str, Any]:
    return {
        "id": job_id, "tenant_id": TEAM, "name": "train", "state": state, "priority": 1, "image_name": "host",
        "spec": {"command": ["true"], "labels": {"project": "cats"}}, "image_kind": "host", "image_reference": "host",
        "least_level": "process", "time_limit_us": GPU_HOUR_US, "grace_us": 1, "gpus": 1, "models": ["H100"],
        "gpu_memory_min_bytes": 0, "cpus_milli": 1000, "memory_bytes": 1, "shm_bytes": 0, "scratch_bytes": 0,
        "output_bytes": 0, "retry_limit": 0, "retry_on": [], "fence": 1, "tries_by_tenant": 0, "tries_by_platform": 0,
        "not_before_us": 0, "avoid_nodes": [], "cancel_requested": False, "submitted_us": 3,
    }  # fmt: skip


def an_entry(seq: int, prev_hash: str, **more: Any) -> dict[str, Any]:
    fields = {
        "id": id_of("ent", seq), "tenant_id": TEAM, "seq": seq, "job_id": JOB, "attempt_id": ATTEMPT,
        "allocation_id": ALLOCATION, "gpu_uuid": "GPU-1", "model": "H100", "cause": "running", "kind": "usage",
        "from_us": 10, "until_us": 10 + GPU_HOUR_US, "duration_us": GPU_HOUR_US, "share_milli": 1000,
        "price_micro_per_gpu_hour": 2_500_000, "cost_micro": 2_500_000, "posted_us": 20,
    } | more  # fmt: skip
    return {**fields, "prev_hash": prev_hash, "hash": entry_hash(prev_hash, fields)}


ENTRIES = [an_entry(1, GENESIS)]
ENTRIES.append(an_entry(2, ENTRIES[0]["hash"], kind="correction", duration_us=-5, cost_micro=-1))
ENTRIES.append(
    an_entry(3, ENTRIES[1]["hash"], cause="platform_fault", cost_micro=0, price_micro_per_gpu_hour=0)
)  # fmt: skip

ROWS: Mapping[str, list[dict[str, Any]]] = {
    "tenant": [a_tenant(ORG, "org", None), a_tenant(TEAM, "team", ORG, chain_length=3, chain_head=ENTRIES[2]["hash"])],
    "api_key": [a_key(id_of("key"), "admin", None), a_key(id_of("key", 1), "tenant", TEAM)],
    "quota": [
        a_quota(ORG, "*"),
        a_quota(TEAM, "*", most_queued=10, queued_used=1, most_running=5, running_used=1, highest_priority=2),
        a_quota(TEAM, "H100"),
    ],
    "price": [{"model": "H100", "micro_per_gpu_hour": 2_500_000}, {"model": "*", "micro_per_gpu_hour": 1_000_000}],
    "image": [
        {"name": "host", "kind": "host", "reference": "host", "state": "admitted", "created_us": 1},
        {"name": "old", "kind": "engine", "reference": "sha256:" + "a" * 64, "state": "retired", "created_us": 1},
    ],
    "node": [{
        "id": NODE, "name": "node-1", "state": "ready", "is_reachable": True, "token_sha256": sha256("a token"),
        "boot_id": "boot", "agent_version": "0.1.0", "kernel": "6", "levels": ["process"], "level_reports": [],
        "labels": {"zone": "a"}, "problems": [], "beat": 7, "last_beat_us": 9, "cpus_milli": 8000, "memory_bytes": 100,
        "scratch_bytes": 100, "cpus_milli_used": 1000, "memory_bytes_used": 1, "scratch_bytes_used": 0, "created_us": 1,
    }],
    "join_token": [{
        "id": id_of("tok"), "secret_sha256": sha256("join"), "node_name": "node-2", "created_us": 1, "expires_us": 2,
    }],
    "gpu": [{
        "id": GPU, "node_id": NODE, "uuid": "GPU-1", "model": "H100", "memory_bytes": 80, "is_simulated": False,
        "health": "ok", "health_reason": "", "state": "clean", "state_reason": "", "generation": 1, "used_milli": 1000,
    }],
    "input": [{"tenant_id": TEAM, "sha256": "sha256:" + "c" * 64, "size_bytes": 5, "created_us": 1}],
    "job": [a_job(JOB, "running"), a_job(QUEUED, "queued")],
    "job_input": [{"job_id": JOB, "position": 0, "sha256": "sha256:" + "c" * 64}],
    "attempt": [{
        "id": ATTEMPT, "job_id": JOB, "tenant_id": TEAM, "node_id": NODE, "number": 1, "fence": 1, "state": "running",
        "level": "process", "assigned_us": 4, "claimed_us": 5, "started_us": 6, "cpus_milli": 1000, "memory_bytes": 1,
        "scratch_bytes": 0, "isolation": {"level": "process"}, "skipped": [], "log_bytes": 3,
    }],
    "allocation": [{
        "id": ALLOCATION, "attempt_id": ATTEMPT, "gpu_id": GPU, "tenant_id": TEAM, "model": "H100",
        "share_milli": 1000, "price_micro_per_gpu_hour": 2_500_000, "from_us": 4, "posted_until_us": 10,
    }],
    "artifact": [{
        "id": id_of("art"), "tenant_id": TEAM, "job_id": JOB, "attempt_id": ATTEMPT, "name": "out.txt",
        "size_bytes": 1, "sha256": "sha256:" + "d" * 64, "created_us": 1,
    }],
    "ledger_entry": ENTRIES,
    "event": [{"at_us": 1, "what": "assigned", "tenant_id": TEAM, "job_id": JOB, "text": "so", "data": {"gpus": 1}}],
    "idempotency": [{
        "caller": TEAM, "key": "once", "route": "POST /v1/jobs []", "body_sha256": "e" * 64, "status": 201,
        "answer": b"{}", "created_us": 1,
    }],
    "leader": [{"name": "control", "holder": "", "epoch": 3, "beat": 9}],
}  # fmt: skip
"""Something in every table of the first release, as it wrote it; those that others refer to come first."""


@pytest.fixture(params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database of the first release with these rows, brought up to date."""
    is_sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/corral.db" if is_sqlite else request.getfixturevalue("empty_postgres_url")
    engine = open_engine(url)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, FIRST)
        tables = set(inspect(connection).get_table_names()) - {"alembic_version"}
        assert tables == set(ROWS), "every table of the first release has rows here"
        for name, rows in ROWS.items():
            for row in rows:
                connection.execute(Table(name, MetaData(), autoload_with=connection).insert().values(**row))
    migrate(engine)
    yield engine
    engine.dispose()


def test_every_row_is_still_there_and_says_the_same(filled: Engine) -> None:
    assert is_current(filled)
    with filled.connect() as connection:
        for name, rows in ROWS.items():
            found = connection.execute(Table(name, MetaData(), autoload_with=connection).select()).mappings().all()
            assert len(found) == len(rows), name
            for row in rows if name not in ("api_key", "price") else []:
                matches = [each for each in found if all(each[column] == value for column, value in row.items())]
                assert matches, f"{name}: {row}"


def test_chains_verify_and_go_on(filled: Engine) -> None:
    with reading(filled) as session:
        assert ledger.verify(session, TEAM) == (3, None)
        assert check_tenant(session, TEAM, None).flaw is None
        assert sum(entry.cost_micro for entry in ledger.entries_of_job(session, JOB)) == 2_499_999
    with writing(filled) as session:
        allocation = session.get_one(Allocation, ALLOCATION)
        ledger.close_allocation(session, allocation, session.get_one(Attempt, ATTEMPT), ())
    with reading(filled) as session:
        count, flaw = ledger.verify(session, TEAM)
        assert flaw is None
        assert count > 3, "what was posted for an allocation that lasted nothing is taken back"
        assert sum(entry.cost_micro for entry in ledger.entries_of_job(session, JOB)) == 0


def test_keys_and_tokens_keep_their_rights(filled: Engine) -> None:
    with reading(filled) as session:
        admin = authenticate(session, f"corral_adminprefix_{SECRETS['admin']}")
        assert (admin.rights.role, admin.rights.tenant_id) == (Role.PLATFORM_ADMIN, None)
        tenant = authenticate(session, f"corral_tenantprefix_{SECRETS['tenant']}")
        assert (tenant.rights.role, tenant.rights.tenant_id) == (Role.TENANT_ADMIN, TEAM)
        assert node_by_token(session, "a token").id == NODE


def test_prices_and_images_hold_on(filled: Engine) -> None:
    with reading(filled) as session:
        assert prices.price_of(session, "H100", 1, 0).micro_per_gpu_hour == 2_500_000
        assert prices.price_of(session, "A100", 1, 0).micro_per_gpu_hour == 1_000_000
        assert {image.name for image in session.exec(select(Image))} == {"host", "old"}


def test_the_database_still_refuses_what_it_refused(filled: Engine) -> None:
    beyond = f"UPDATE quota SET gpu_used_milli = 4001 WHERE tenant_id = '{TEAM}' AND model = 'H100'"
    for statement in ("UPDATE ledger_entry SET cost_micro = 0", "DELETE FROM ledger_entry", beyond):
        with pytest.raises(DBAPIError), writing(filled) as session:
            session.connection().execute(text(statement))
    with writing(filled) as session:
        session.connection().execute(text(f"UPDATE quota SET gpu_limit_milli = 500 WHERE tenant_id = '{TEAM}'"))
    with reading(filled) as session:
        assert ledger.verify(session, TEAM) == (3, None)


def test_a_job_that_waited_waits_and_one_that_ran_runs(filled: Engine) -> None:
    with reading(filled) as session:
        assert session.get_one(Job, QUEUED).state == "queued"
        assert session.get_one(Job, JOB).spec["labels"] == {"project": "cats"}
        attempt = session.get_one(Attempt, ATTEMPT)
        assert (attempt.state, attempt.started_us) == ("running", 6)
