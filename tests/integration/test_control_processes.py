"""Whole control processes, stopped and killed: somebody else leads, and the one that comes back does no harm."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from audit_parts import rewrite_chain
from builders import a_job, a_node, a_tenant
from ledger_parts import a_keyring, a_line
from redis_parts import ROOT, RedisServer, eventually
from sqlalchemy import Engine
from sqlmodel import func, select

from control.leadership import LEASE_SECONDS
from domain.seals import DAY_US
from store import audit
from store.clock import now_us
from store.engine import reading, writing
from store.leader import Lease, read_lease
from store.tables import Attempt, Job

PROGRAM = "from control.service import run; from control.settings import ControlSettings; run(ControlSettings())"
PATIENCE_SECONDS = LEASE_SECONDS + 30

Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def start(database_url: str, redis_server: RedisServer, tmp_path: Path) -> Iterator[Start]:
    """Start a control process under this name."""
    processes: list[subprocess.Popen[bytes]] = []
    a_keyring(tmp_path)

    def started(holder: str) -> subprocess.Popen[bytes]:
        settings = {
            "CORRAL_DATABASE_URL": database_url,
            "CORRAL_REDIS_URL": redis_server.url,
            "CORRAL_HOLDER": holder,
            "CORRAL_SIGNING_KEY_FILE": str(tmp_path / "signing.key"),
            "CORRAL_SEALS_URL": f"file://{tmp_path}/seals",
        }
        process = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, env={**os.environ, **settings})
        processes.append(process)
        return process

    yield started
    for process in processes:
        process.kill()
        process.wait()


def lease_of(engine: Engine) -> Lease:
    with reading(engine) as session:
        return read_lease(session) or Lease("", 0, 0)


def assert_leads(engine: Engine, holder: str, seconds: float = 30) -> None:
    eventually(lambda: lease_of(engine).holder == holder, seconds)


def assert_places(engine: Engine, tenant_id: str) -> None:
    with writing(engine) as session:
        job_id = a_job(session, tenant_id)

    def is_running() -> bool:
        with reading(engine) as session:
            return session.get_one(Job, job_id).state == "running"

    eventually(is_running, PATIENCE_SECONDS)


def a_cluster(engine: Engine) -> str:
    with writing(engine) as session:
        a_node(session)
        return a_tenant(session)


@pytest.mark.slow
def test_one_that_was_stopped_is_overtaken_and_stands_by_when_it_goes_on(engine: Engine, start: Start) -> None:
    tenant_id = a_cluster(engine)
    first = start("first")
    assert_leads(engine, "first")
    start("second")
    first.send_signal(signal.SIGSTOP)
    assert_leads(engine, "second", PATIENCE_SECONDS)
    first.send_signal(signal.SIGCONT)
    assert_places(engine, tenant_id)
    beat = lease_of(engine).beat
    eventually(lambda: lease_of(engine).beat > beat + 1)
    assert lease_of(engine).holder == "second"
    assert first.poll() is None
    with reading(engine) as session:
        assert session.exec(select(func.count()).select_from(Attempt)).one() == 1


@pytest.mark.slow
def test_one_that_was_killed_is_replaced(engine: Engine, start: Start) -> None:
    tenant_id = a_cluster(engine)
    first = start("first")
    assert_leads(engine, "first")
    start("second")
    first.kill()
    assert_places(engine, tenant_id)
    assert lease_of(engine).holder == "second"


def test_one_that_is_asked_to_end_gives_its_lease_back(engine: Engine, start: Start) -> None:
    process = start("first")
    assert_leads(engine, "first")
    process.terminate()
    assert process.wait(timeout=20) == 0
    assert lease_of(engine).holder == ""


def test_the_days_that_are_over_are_sealed_by_whoever_leads(engine: Engine, start: Start, tmp_path: Path) -> None:
    with writing(engine) as session:
        tenant_id, yesterday = a_tenant(session), now_us(session) - DAY_US
        a_line(session, tenant_id, 0, 1_000_000, posted_us=yesterday)
        audit.append(session, audit.Change(audit.PLATFORM, "done"))
    with engine.begin() as connection:
        rewrite_chain(connection, audit.PLATFORM, at_us=yesterday)  # as if it had been done then
    start("first")
    copy = tmp_path / "seals" / "seal-000001.jsonl"
    eventually(copy.exists, 30)
    chains = [json.loads(line)["chain"] for line in copy.read_text().splitlines()[1:]]
    assert chains == ["audit:platform", f"ledger:{tenant_id}"]
