"""The whole system under kills and cuts: every job ends once and right, and the books agree."""

import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from corral import Job, JobSpec
from redis import Redis
from redis_parts import eventually
from sqlmodel import col, select
from system_parts import System

from store import ledger
from store.engine import reading
from store.tables import Allocation, Attempt
from store.tables import Job as JobRow

SCRIPT = "echo begun; sleep 0.6; echo done > /out/word; echo over"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("system")
    folder.chmod(0o711)
    folder.parent.chmod(0o711)
    running = System(folder, f"sqlite:///{folder / 'corral.db'}")
    yield running
    running.close()


def submit(system: System, script: str = SCRIPT, gpus: int = 1, **more: object) -> Job:
    spec = {
        "image": "host",
        "command": ["sh", "-c", script],
        "resources": {"gpus": gpus, "memory": "64MiB", "output": "1MiB"},
        "time_limit": "2m",
        "retry": {"limit": 0, "on": ["platform"]},
        **more,
    }
    return system.tenant.submit(JobSpec.model_validate(spec))


def assert_ended_right(job: Job) -> None:
    view = job.wait(timeout=150)
    assert (view.state, view.exit_code) == ("succeeded", 0), (view.outcome, view.error)
    assert [artifact.name for artifact in job.artifacts] == ["word"]


def is_in(system: System, stage: str) -> Callable[[], bool]:
    """Whether the job got as far as `stage`, or further."""
    order = ("queued", "assigned", "preparing", "running", "stopping")

    def reached() -> bool:
        states = system.live_states()
        return stage == "queued" or any(order.index(state) >= order.index(stage) for state in states)

    return reached


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["queued", "assigned", "preparing", "running"])
@pytest.mark.parametrize("victim", ["api", "control", "worker", "celery", "valkey"])
def test_a_kill_of_any_process_at_any_stage_costs_no_job(system: System, victim: str, stage: str) -> None:
    job = submit(system)
    eventually(lambda: is_in(system, stage)() or job.refresh().state == "succeeded", 30)
    system.restart(victim)
    assert_ended_right(job)
    assert b"".join(job.logs()) == b"begun\nover\n"
    assert len(job.attempts()) == 1
    system.settle()


@pytest.mark.slow
def test_an_api_killed_between_commit_and_answer_makes_one_job(system: System) -> None:
    for number in range(3):
        name = f"once-{number}"
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(submit, system, name=name)  # the client asks again, under the same idempotency key
            eventually(lambda name=name: _job_ids(system, name))
            system.restart("api")
            job = asked.result(timeout=60)
        assert _job_ids(system, name) == [job.id]
        assert_ended_right(job)
    system.settle()


@pytest.mark.slow
def test_a_killed_runner_is_the_platforms_fault_and_the_job_runs_again(system: System) -> None:
    job = submit(system, "sleep 3; echo done > /out/word")
    eventually(is_in(system, "running"), 30)
    eventually(lambda: system.pids_of("runner"))
    system.kill("runner")
    assert_ended_right(job)
    first, second = sorted(job.attempts(), key=lambda attempt: attempt.number)
    assert (first.outcome, second.outcome) == ("sandbox_error", "exited")
    system.settle()
    charged = {entry.attempt_id for entry in job.ledger() if entry.cost_micro}
    assert charged == {second.id}


@pytest.mark.slow
def test_a_flushed_redis_loses_nothing(system: System) -> None:
    client = Redis.from_url(f"unix://{system.folder / 'valkey.sock'}")
    jobs = []
    for _ in range(6):
        jobs.append(submit(system))
        client.flushall()
    client.close()
    for job in jobs:
        assert_ended_right(job)
    system.settle()


@pytest.mark.slow
def test_jobs_run_while_redis_is_away(system: System) -> None:
    system.kill("valkey")
    try:
        job = submit(system)
        assert_ended_right(job)
        assert b"".join(job.logs(follow=True)) == b"begun\nover\n"
    finally:
        system.start("valkey")
    assert_ended_right(submit(system))
    system.settle()


@pytest.mark.slow
def test_a_worker_stopped_for_longer_than_its_lease_leaves_its_job_to_the_runner(system: System) -> None:
    job = submit(system, "sleep 60; echo done > /out/word", max_unreachable="3s")
    eventually(is_in(system, "running"), 30)
    eventually(lambda: system.pids_of("runner"))
    system.signal("worker", signal.SIGSTOP)
    try:
        eventually(lambda: not system.pids_of("runner") or _has_exited(system, job), 60)
    finally:
        system.signal("worker", signal.SIGCONT)
    eventually(lambda: job.refresh().attempts >= 2 or job.view.state != "running", 60)
    outcomes = [attempt.outcome for attempt in job.attempts() if attempt.outcome]
    assert outcomes[0] == "node_lost"
    job.cancel()
    job.wait(timeout=60)
    system.settle()


@pytest.mark.slow
def test_200_submissions_at_once_never_pass_a_quota_of_8(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    tmp_path.parent.chmod(0o711)
    system = System(tmp_path, f"sqlite:///{tmp_path / 'corral.db'}", gpus=12)
    try:
        tenant_id = system.add_tenant("eight", gpus=8)
        key = system.key_of(tenant_id)
        seen, over = [], threading.Event()

        def watch() -> None:
            while not over.wait(0.01):
                with reading(system.engine) as session:
                    held = session.exec(
                        select(Allocation.id).where(
                            Allocation.tenant_id == tenant_id, col(Allocation.until_us).is_(None)
                        )
                    )
                    seen.append(len(held.all()))

        watcher = threading.Thread(target=watch)
        watcher.start()
        client = type(system.tenant)(system.url, key)
        spec = JobSpec.model_validate(
            {
                "image": "host",
                "command": ["sleep", "0.3"],
                "resources": {"gpus": 1, "memory": "16MiB"},
                "time_limit": "1m",
            }
        )
        with ThreadPoolExecutor(20) as pool:
            jobs = list(pool.map(lambda _: client.submit(spec), range(200)))
        for job in jobs:
            assert job.wait(timeout=150).state == "succeeded"
        over.set()
        watcher.join()
        client.close()
        assert max(seen) == 8
        system.settle()
    finally:
        system.close()


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_the_ledger_equals_what_an_observer_saw_of_a_hundred_jobs_under_kills(system: System) -> None:
    """Each job tells by the node's own boot-time clock how long it ran; the ledger must say the same."""
    chance = random.Random(7)
    script = "cut -d' ' -f1 /proc/uptime; sleep {0}; cut -d' ' -f1 /proc/uptime; echo done > /out/word"
    jobs = [
        submit(system, script.format(chance.randrange(0, 40) / 100), gpus=chance.choice([1, 1, 2])) for _ in range(100)
    ]
    over = threading.Event()

    def wreck() -> None:
        while not over.wait(chance.uniform(1, 4)):
            system.restart(chance.choice(["control", "worker", "celery", "valkey"]))

    wrecker = threading.Thread(target=wreck)
    wrecker.start()
    try:
        for job in jobs:
            assert_ended_right(job)
    finally:
        over.set()
        wrecker.join()
    system.settle()
    for job in jobs:
        began, ended = (float(line) for line in b"".join(job.logs()).split())
        ran_us = sum(entry.duration_us for entry in job.ledger() if entry.cause == "running")
        per_device_us = ran_us / job.view.spec.resources.gpus
        observed_us = (ended - began) * 1_000_000
        assert observed_us - 20_000 <= per_device_us <= observed_us + 1_500_000
    _assert_ledger_is_the_sum_of_attempts(system, {job.id for job in jobs})


def _assert_ledger_is_the_sum_of_attempts(system: System, job_ids: set[str]) -> None:
    with reading(system.engine) as session:
        for job_id in job_ids:
            attempts = session.exec(select(Attempt).where(Attempt.job_id == job_id)).all()
            held_us = 0
            for attempt in attempts:
                devices = session.exec(select(Allocation.id).where(Allocation.attempt_id == attempt.id)).all()
                held_us += ((attempt.ended_us or 0) - attempt.assigned_us) * len(devices)
            posted_us = sum(entry.duration_us for entry in ledger.entries_of_job(session, job_id))
            assert posted_us == held_us


def _job_ids(system: System, name: str) -> list[str]:
    with reading(system.engine) as session:
        return list(session.exec(select(JobRow.id).where(JobRow.name == name)))


def _has_exited(system: System, job: Job) -> bool:
    attempt = job.attempts()[0]
    journal = system.folder / "node" / "attempts" / attempt.id / "journal.jsonl"
    return journal.exists() and b'"exited"' in journal.read_bytes()
