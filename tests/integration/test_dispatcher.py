"""The dispatcher on a real database: it starts what fits at once, and nothing twice, whoever else tries."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from builders import a_job, a_node, a_tenant
from redis_parts import RedisServer, eventually
from sqlalchemy import Engine, insert, update
from sqlmodel import Session, col, func, select

from control.dispatcher import Dispatcher
from control.metrics import Metrics
from control.service import ControlService
from control.settings import ControlSettings
from domain.endings import Outcome
from domain.errors import StaleLeader
from domain.ids import AttemptId, Fence, JobId, NodeId
from hints.sender import Hints
from store import attempts, ends
from store.ends import Ending, Finding
from store.engine import open_engine, reading, writing
from store.leader import ensure_lease, read_lease, take_lease
from store.snapshot import SnapshotReader
from store.tables import Allocation, Attempt, Event, Job, Quota


class Recorder:
    """Notes what is sent."""

    def __init__(self) -> None:
        self.launched: list[tuple[NodeId, AttemptId, Fence]] = []
        self.told: list[JobId] = []

    def launch(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None:
        self.launched.append((node_id, attempt_id, fence))

    def changed(self, *job_ids: JobId) -> None:
        self.told.extend(job_ids)


def an_epoch(engine: Engine) -> int:
    with writing(engine) as session:
        ensure_lease(session)
        seen = read_lease(session)
        assert seen is not None
        epoch = take_lease(session, "me", seen)
    assert epoch is not None
    return epoch


@pytest.fixture
def hints() -> Recorder:
    return Recorder()


@pytest.fixture
def dispatcher(engine: Engine, hints: Recorder) -> Dispatcher:
    return Dispatcher(engine, hints, an_epoch(engine))


def state_of(engine: Engine, job_id: str) -> str:
    with reading(engine) as session:
        return session.get_one(Job, job_id).state


def finish(session: Session, job_id: str) -> None:
    """Let the job's attempt run and end well."""
    attempt = session.exec(select(Attempt).where(Attempt.job_id == job_id, col(Attempt.state) != "ended")).one()
    claimed = attempts.claim(session, attempt.node_id, attempt.id, attempt.fence)
    clean = {gpu.uuid: Finding(True, "", "ok", "") for gpu in claimed.devices}
    ending = Ending(Outcome.EXITED, exit_code=0, prepare_us=1, run_us=1, stop_us=1)
    ends.ended(session, attempt.node_id, attempt.id, attempt.fence, ending, clean)


def many_jobs(session: Session, tenant_id: str, count: int) -> None:
    """Copies of one job, without a statement for each."""
    model = session.get_one(Job, a_job(session, tenant_id)).model_dump()
    rows = [model | {"id": f"job_copy{number:06d}"} for number in range(count - 1)]
    session.execute(insert(Job), rows)
    session.execute(
        update(Quota).where(col(Quota.tenant_id) == tenant_id, col(Quota.model) == "*").values(queued_used=count)
    )


def test_a_job_is_assigned_and_its_node_told(engine: Engine, dispatcher: Dispatcher, hints: Recorder) -> None:
    with writing(engine) as session:
        node_id, job_id = a_node(session), a_job(session, a_tenant(session))
    report = dispatcher.run_pass()
    assert (report.placed, report.refused, report.waiting) == (1, 0, 0)
    with reading(engine) as session:
        attempt = session.exec(select(Attempt)).one()
    assert (attempt.job_id, attempt.node_id, attempt.state) == (job_id, node_id, "assigned")
    assert hints.launched == [(node_id, attempt.id, attempt.fence)]
    assert hints.told == [job_id]


def test_who_waits_is_told_why_once(engine: Engine, dispatcher: Dispatcher, hints: Recorder) -> None:
    with writing(engine) as session:
        tenant_id = a_tenant(session)
        a_node(session, gpus=1)
        first, second = a_job(session, tenant_id), a_job(session, tenant_id)
    dispatcher.run_pass()
    with reading(engine) as session:
        job = session.get_one(Job, second)
    assert job.reason_code == "no_device"
    assert job.reason_text
    assert sorted(hints.told) == sorted([first, second])
    hints.told.clear()
    dispatcher.run_pass()
    assert hints.told == []


def test_a_reason_that_somebody_took_away_is_written_again(engine: Engine, dispatcher: Dispatcher) -> None:
    with writing(engine) as session:
        job_id = a_job(session, a_tenant(session))
    dispatcher.run_pass()
    with writing(engine) as session:
        session.execute(update(Job).values(reason_code=None, reason_text=None, reason_numbers=None))
    dispatcher.run_pass()
    with reading(engine) as session:
        assert session.get_one(Job, job_id).reason_code is not None


def test_a_cancelled_or_held_job_is_not_placed(engine: Engine, dispatcher: Dispatcher) -> None:
    with writing(engine) as session:
        tenant_id = a_tenant(session)
        a_node(session)
        held = a_job(session, tenant_id, state="held")
        cancelled = a_job(session, tenant_id, cancel_requested=True)
    assert dispatcher.run_pass().placed == 0
    assert (state_of(engine, held), state_of(engine, cancelled)) == ("held", "queued")


def test_what_changed_after_the_plan_is_refused_and_the_rest_goes_on(
    engine: Engine, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(engine) as session:
        tenant_id = a_tenant(session)
        a_node(session)
        held, good = a_job(session, tenant_id), a_job(session, tenant_id)
    read = SnapshotReader.read

    def read_and_hold(reader: SnapshotReader, session: Session) -> object:
        snapshot = read(reader, session)
        with writing(engine) as other:
            other.execute(update(Job).where(col(Job.id) == held).values(state="held"))
        return snapshot

    monkeypatch.setattr(SnapshotReader, "read", read_and_hold)
    report = dispatcher.run_pass()
    assert (report.placed, report.refused) == (1, 1)
    assert (state_of(engine, held), state_of(engine, good)) == ("held", "running")


def test_a_job_that_cannot_be_read_is_set_aside_and_the_others_start(engine: Engine, dispatcher: Dispatcher) -> None:
    with writing(engine) as session:
        tenant_id = a_tenant(session)
        a_node(session)
        bad = a_job(session, tenant_id, least_level="cardboard")
        good = a_job(session, tenant_id)
    for _ in range(3):
        dispatcher.run_pass()
    assert (state_of(engine, bad), state_of(engine, good)) == ("queued", "running")
    with reading(engine) as session:
        assert session.exec(select(Event.job_id).where(Event.what == "set_aside")).all() == [bad]


def test_a_job_that_cannot_be_assigned_is_set_aside_and_the_others_start(
    engine: Engine, dispatcher: Dispatcher
) -> None:
    with writing(engine) as session:
        tenant_id = a_tenant(session)
        node_id = a_node(session)
        bad, good = a_job(session, tenant_id), a_job(session, tenant_id)
        # an attempt whose fence the next assignment will want again
        session.add(
            Attempt(
                id="att_old",
                job_id=bad,
                tenant_id=tenant_id,
                node_id=node_id,
                number=1,
                fence=1,
                state="ended",
                level="process",
                assigned_us=1,
                cpus_milli=0,
                memory_bytes=0,
                scratch_bytes=0,
            )
        )
    reports = [dispatcher.run_pass() for _ in range(3)]
    assert [report.placed for report in reports] == [1, 0, 0]
    assert (state_of(engine, bad), state_of(engine, good)) == ("queued", "running")
    with reading(engine) as session:
        assert session.exec(select(Event.job_id).where(Event.what == "set_aside")).all() == [bad]


def test_a_driver_version_that_makes_no_sense_stops_nobody(engine: Engine, dispatcher: Dispatcher) -> None:
    with writing(engine) as session:
        a_node(session, "odd", cuda_driver="newest", levels=["process", "cardboard"])
        a_job(session, a_tenant(session))
    assert dispatcher.run_pass().placed == 1


def test_the_old_leaders_dispatcher_places_nothing(engine: Engine, dispatcher: Dispatcher, hints: Recorder) -> None:
    with writing(engine) as session:
        a_node(session)
        job_id = a_job(session, a_tenant(session))
    an_epoch(engine)
    with pytest.raises(StaleLeader):
        dispatcher.run_pass()
    assert state_of(engine, job_id) == "queued"
    assert hints.launched == []


def test_two_schedulers_at_once_place_each_job_once(engine: Engine, hints: Recorder) -> None:
    """Worse than can be: both believe in the same epoch."""
    epoch = an_epoch(engine)
    with writing(engine) as session:
        tenant_id = a_tenant(session, gpus=None)
        for number in range(3):
            a_node(session, f"node-{number}", gpus=8)
        jobs = [a_job(session, tenant_id) for _ in range(20)]
    both = [Dispatcher(engine, hints, epoch), Dispatcher(engine, hints, epoch)]
    with ThreadPoolExecutor(2) as pool:
        reports = [each for _ in range(5) for each in pool.map(Dispatcher.run_pass, both)]
    assert sum(report.placed for report in reports) == 20
    with reading(engine) as session:
        assert session.exec(select(func.count()).select_from(Attempt)).one() == 20
        assert {job.state for job in session.exec(select(Job))} == {"running"}
        held = session.exec(select(Allocation.gpu_id).where(col(Allocation.until_us).is_(None))).all()
    assert len(set(held)) == len(held) == len(jobs)


def test_one_job_beside_ten_thousand_of_another_tenant_starts_with_the_next_free_device(
    engine: Engine, dispatcher: Dispatcher
) -> None:
    with writing(engine) as session:
        crowd = a_tenant(session, "crowd", gpus=None, most_queued=20_000)
        a_node(session, gpus=2)
        many_jobs(session, crowd, 10_000)
    assert dispatcher.run_pass().placed == 2
    with writing(engine) as session:
        lone_job = a_job(session, a_tenant(session, "lone"))
        running = session.exec(select(Job.id).where(Job.state == "running")).all()[0]
    assert dispatcher.run_pass().placed == 0
    with writing(engine) as session:
        finish(session, running)
    began = time.monotonic()
    assert dispatcher.run_pass().placed == 1
    assert time.monotonic() - began < 10  # 0.2 s on a machine with nothing else to do
    assert state_of(engine, lone_job) == "running"


def test_a_job_that_comes_back_is_read_anew(engine: Engine, dispatcher: Dispatcher) -> None:
    with writing(engine) as session:
        a_node(session, gpus=1)
        job_id = a_job(session, a_tenant(session))
    dispatcher.run_pass()
    with writing(engine) as session:
        attempt_id = session.exec(select(Attempt.id)).one()
        ends.withdraw(session, attempt_id)
        session.execute(update(Job).values(not_before_us=2**60))
    assert dispatcher.run_pass().placed == 0
    with reading(engine) as session:
        assert session.get_one(Job, job_id).reason_code == "back_off"


class Control:
    """A control process's service, in a thread."""

    def __init__(self, url: str, redis_url: str, holder: str) -> None:
        self.service = ControlService(ControlSettings(database_url=url, redis_url=redis_url, holder=holder))
        self._thread = threading.Thread(target=self.service.serve)
        self._thread.start()

    def stop(self) -> None:
        self.service.stop()
        self._thread.join(20)
        assert not self._thread.is_alive()


@pytest.fixture
def control(database_url: str, redis_server: RedisServer) -> Iterator[Control]:
    service = Control(database_url, redis_server.url, "one")
    yield service
    service.stop()


def leader_of(engine: Engine) -> str:
    with reading(engine) as session:
        lease = read_lease(session)
    return lease.holder if lease else ""


def test_a_submission_wakes_the_dispatcher_at_once(
    engine: Engine, redis_server: RedisServer, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.dispatcher.FULL_PASS_SECONDS", 60.0)  # so that only the waking can be so quick
    hints = Hints(redis_server.url)
    with writing(engine) as session:
        a_node(session)
        tenant_id = a_tenant(session)
    eventually(lambda: leader_of(engine) == "one")
    for _ in range(5):
        with writing(engine) as session:
            job_id = a_job(session, tenant_id)
        hints.wake()
        eventually(lambda job_id=job_id: state_of(engine, job_id) == "running", seconds=3)
    hints.close()


def test_without_redis_jobs_start_within_the_full_passs_time(
    engine: Engine, redis_server: RedisServer, control: Control
) -> None:
    eventually(lambda: leader_of(engine) == "one")
    redis_server.kill()
    with writing(engine) as session:
        a_node(session)
        job_id = a_job(session, a_tenant(session))
    eventually(lambda: state_of(engine, job_id) == "running", seconds=10)


def test_a_standby_takes_over_from_one_that_stops(database_url: str, engine: Engine, redis_server: RedisServer) -> None:
    first = Control(database_url, redis_server.url, "one")
    eventually(lambda: leader_of(engine) == "one")
    second = Control(database_url, redis_server.url, "two")
    first.stop()
    eventually(lambda: leader_of(engine) == "two", seconds=10)
    with writing(engine) as session:
        a_node(session)
        job_id = a_job(session, a_tenant(session))
    eventually(lambda: state_of(engine, job_id) == "running")
    second.stop()
    assert leader_of(engine) == ""


def test_a_database_that_is_not_there_yet_is_waited_for(tmp_path: Path, redis_server: RedisServer) -> None:
    url = f"sqlite:///{tmp_path / 'missing' / 'corral.db'}"
    control = Control(url, redis_server.url, "one")
    time.sleep(1)  # there is no condition for its not ending
    control.stop()
    with pytest.raises(Exception, match="unable to open"), reading(open_engine(url)) as session:
        read_lease(session)


def test_figures_are_counted(engine: Engine, hints: Recorder) -> None:
    metrics = Metrics()
    with writing(engine) as session:
        a_node(session, gpus=1)
        tenant_id = a_tenant(session)
        a_job(session, tenant_id)
        a_job(session, tenant_id)
    Dispatcher(engine, hints, an_epoch(engine), metrics).run_pass()
    values = metrics.registry.get_sample_value
    assert (values("corral_dispatcher_placements_total"), values("corral_queue_length")) == (1.0, 1.0)
