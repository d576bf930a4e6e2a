"""An array's bound, and what becomes of those who wait when an attempt ends."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from builders import a_job, a_node, a_placement, a_tenant
from sqlalchemy import Engine
from sqlmodel import Session, select

from domain.endings import Outcome
from store.assignments import Assigned, PlacementRefused, assign, lock_for
from store.attempts import claim
from store.clock import now_us
from store.ends import Ending, ended
from store.engine import reading, writing
from store.ids import new_id
from store.snapshot import SnapshotReader
from store.tables import Gpu, Job, JobArray, JobDependency


def an_array(session: Session, tenant_id: str, count: int, most_running: int | None) -> tuple[str, list[str]]:
    array_id = new_id("arr")
    session.add(
        JobArray(
            id=array_id, tenant_id=tenant_id, count=count, most_running=most_running, unfinished=count,
            submitted_us=now_us(session),
        )
    )  # fmt: skip
    session.flush()
    return array_id, [a_job(session, tenant_id, array_id=array_id, array_index=n) for n in range(count)]


def a_dependent(session: Session, tenant_id: str, after_id: str, condition: str) -> str:
    job_id = a_job(session, tenant_id, waits_for=1)
    session.add(JobDependency(job_id=job_id, after_id=after_id, condition=condition))
    session.flush()
    return job_id


def try_to_assign(engine: Engine, job_id: str, node_id: str, gpu_id: str) -> Assigned | None:
    with writing(engine) as session:
        placement = a_placement(session, job_id, node_id, [session.get_one(Gpu, gpu_id)])
        lock_for(session, [placement])
        try:
            with session.begin_nested():
                return assign(session, placement)
        except PlacementRefused:
            return None


def run_to_its_end(engine: Engine, assigned: Assigned, exit_code: int) -> None:
    with writing(engine) as session:
        claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
        ending = Ending(Outcome.EXITED, exit_code, run_us=1_000)
        ended(session, assigned.node_id, assigned.attempt_id, assigned.fence, ending, {})


def gpus_of(engine: Engine) -> list[str]:
    with reading(engine) as session:
        return sorted(session.exec(select(Gpu.id)))


def test_no_race_takes_an_array_beyond_its_bound(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_tenant(session), a_node(session)
        array_id, jobs = an_array(session, tenant_id, 8, most_running=3)
    gpus = gpus_of(engine)
    with ThreadPoolExecutor(8) as pool:
        tried = list(pool.map(lambda n: try_to_assign(engine, jobs[n], node_id, gpus[n]), range(8)))
    running = [each for each in tried if each is not None]
    assert len(running) == 3
    for each in running:
        run_to_its_end(engine, each, 0)
    with reading(engine) as session:
        array = session.get_one(JobArray, array_id)
        assert (array.running_used, array.unfinished, array.unsuccessful) == (0, 5, 0)


@pytest.mark.parametrize(
    ("condition", "exit_code", "state"),
    [
        ("success", 0, "queued"),
        ("success", 1, "cancelled"),
        ("failure", 0, "cancelled"),
        ("failure", 1, "queued"),
        ("any", 1, "queued"),
    ],
)
def test_an_end_lets_go_or_dooms_who_waits_for_it(engine: Engine, condition: str, exit_code: int, state: str) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_tenant(session), a_node(session)
        first = a_job(session, tenant_id)
        waits = a_dependent(session, tenant_id, first, condition)
    with reading(engine) as session:
        assert [demand.job_id for demand in SnapshotReader().read(session).queue] == [first]
    assigned = try_to_assign(engine, first, node_id, gpus_of(engine)[0])
    assert assigned is not None
    run_to_its_end(engine, assigned, exit_code)
    with reading(engine) as session:
        job = session.get_one(Job, waits)
        assert (job.state, job.waits_for) == (state, 0)
        assert [demand.job_id for demand in SnapshotReader().read(session).queue] == (
            [waits] if state == "queued" else []
        )


def test_a_job_that_waits_for_others_is_never_assigned(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_tenant(session), a_node(session)
        waits = a_dependent(session, tenant_id, a_job(session, tenant_id), "any")
    assert try_to_assign(engine, waits, node_id, gpus_of(engine)[0]) is None
