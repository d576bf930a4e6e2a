"""Images in the database and before the dispatcher: what is blocked starts nowhere, what waits is pulled ahead."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from books import assert_books_agree
from builders import a_job, a_node, a_placement, a_tenant
from sqlalchemy import Engine
from sqlmodel import Session, select

from control.dispatcher import Dispatcher
from control.foresight import LOOK_AHEAD_SECONDS, Foresight
from domain.errors import ImageBlocked
from domain.ids import AttemptId, Fence, Instant, JobId, NodeId
from domain.scheduling.plan import plan
from store import assignments, attempts, image_blocks
from store.engine import reading, writing
from store.image_checks import Found, note_found, take_checks
from store.image_work import wishes
from store.images import admit_image
from store.leader import ensure_lease, read_lease, take_lease
from store.signature_rules import add_rule
from store.snapshot import SnapshotReader
from store.tables import Attempt, ImageBlock, Job

DIGEST = "sha256:" + "c" * 64
REFERENCE = f"r.example/x@{DIGEST}"
IMAGE = {"image_kind": "engine", "image_reference": REFERENCE, "least_level": "container"}


class Deaf:
    """Nobody hears a hint."""

    def launch(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None: ...
    def changed(self, *job_ids: JobId) -> None: ...


def an_epoch(engine: Engine) -> int:
    with writing(engine) as session:
        ensure_lease(session)
        seen = read_lease(session)
        assert seen is not None
        epoch = take_lease(session, "me", seen)
    assert epoch is not None
    return epoch


@pytest.fixture
def dispatcher(engine: Engine) -> Dispatcher:
    return Dispatcher(engine, Deaf(), an_epoch(engine))


def job(engine: Engine, job_id: str) -> Job:
    with reading(engine) as session:
        return session.get_one(Job, job_id)


def test_a_job_whose_image_is_blocked_waits_with_the_reason_and_starts_after_an_unblock(
    engine: Engine, dispatcher: Dispatcher
) -> None:
    with writing(engine) as session:
        a_node(session)
        job_id = a_job(session, a_tenant(session), **IMAGE)
        image_blocks.block(session, REFERENCE, "CVE-1", is_to_stop=False)
    dispatcher.run_pass()
    found = job(engine, job_id)
    assert (found.state, found.reason_code) == ("queued", "image_blocked")
    assert "CVE-1" in (found.reason_text or "")
    with writing(engine) as session:
        image_blocks.unblock(session, f"elsewhere.example/y@{DIGEST}")
    dispatcher.run_pass()
    assert job(engine, job_id).state == "running"


def test_a_job_whose_image_must_be_signed_waits_for_the_check(engine: Engine, dispatcher: Dispatcher) -> None:
    with writing(engine) as session:
        node_id = a_node(session)
        add_rule(session, "r.example/*", "key", None, None, True)
        admit_image(session, "x", REFERENCE, None, None)
        job_id = a_job(session, a_tenant(session), **IMAGE)
    dispatcher.run_pass()
    assert job(engine, job_id).reason_code == "image_unchecked"
    with writing(engine) as session:
        [(_, rule)] = take_checks(session, node_id)
        assert rule is not None
        note_found(session, node_id, Found(REFERENCE, [], ["not signed"], None, None, None, None))
    dispatcher.run_pass()
    assert job(engine, job_id).reason_code == "image_refused"


def test_a_job_whose_image_nobody_has_looked_at_starts(engine: Engine, dispatcher: Dispatcher) -> None:
    with writing(engine) as session:
        a_node(session)
        admit_image(session, "x", REFERENCE, None, None)
        job_id = a_job(session, a_tenant(session), **IMAGE)
    dispatcher.run_pass()
    assert job(engine, job_id).state == "running"


def test_what_waits_is_wanted_where_it_could_run_until_it_waits_no_more(engine: Engine, dispatcher: Dispatcher) -> None:
    with writing(engine) as session:
        tenant_id = a_tenant(session)
        node_id = a_node(session, gpus=1)
        jobs = [a_job(session, tenant_id, **IMAGE) for _ in range(3)]
    dispatcher.run_pass()
    with reading(engine) as session:
        assert wishes(session) == {(node_id, REFERENCE)}
    time = [1000.0]
    foresight = Foresight(engine, an_epoch(engine), lambda: time[0])
    with writing(engine) as session:
        for each in session.exec(select(Job).where(Job.state == "queued")):
            each.cancel_requested = True
    assert len(jobs) == 3

    def look() -> set[tuple[str, str]]:
        with reading(engine) as session:
            snapshot = SnapshotReader().read(session)
        foresight.look(snapshot, plan(snapshot, Instant(0)))
        with reading(engine) as session:
            return wishes(session)

    assert look() == set()
    with writing(engine) as session:
        a_job(session, tenant_id, **IMAGE)
    assert look() == set()  # it looked a moment ago
    time[0] += LOOK_AHEAD_SECONDS
    assert look() == {(node_id, REFERENCE)}


def test_a_block_and_assignments_at_once_leave_nothing_that_a_node_may_take(engine: Engine) -> None:
    """Whoever is first: either the assignment is refused or taken back, or the claim is."""
    with writing(engine) as session:
        node_id = a_node(session, gpus=8)
        jobs = [a_job(session, a_tenant(session, f"t{n}"), **IMAGE) for n in range(8)]
    start = threading.Barrier(9)

    def assign(job_id: str) -> None:
        start.wait()
        with writing(engine) as session:
            placement = a_placement(session, job_id, node_id, [])
            assignments.lock_for(session, [placement])
            try:
                with session.begin_nested():
                    assignments.assign(session, placement)
            except assignments.PlacementRefused:
                return

    def block() -> None:
        start.wait()
        with writing(engine) as session:
            image_blocks.block(session, REFERENCE, "now", is_to_stop=True)

    with ThreadPoolExecutor(9) as pool:
        outcomes = [pool.submit(assign, job_id) for job_id in jobs] + [pool.submit(block)]
        for outcome in outcomes:
            outcome.result()
    with reading(engine) as session:
        left = session.exec(select(Attempt).where(Attempt.state == "assigned")).all()
        assert session.get(ImageBlock, DIGEST) is not None
    for attempt in left:
        with pytest.raises(ImageBlocked), writing(engine) as session:
            attempts.claim(session, node_id, attempt.id, attempt.fence)
    with Session(engine) as session:
        assert {row.state for row in session.exec(select(Job))} <= {"queued", "running"}
        assert_books_agree(session)


def test_two_nodes_that_beat_at_once_are_not_both_asked_to_look(engine: Engine) -> None:
    with writing(engine) as session:
        nodes = [a_node(session, f"n{n}") for n in range(4)]
        admit_image(session, "x", REFERENCE, None, None)
    start = threading.Barrier(4)

    def beat(node_id: str) -> int:
        start.wait()
        with writing(engine) as session:
            return len(take_checks(session, node_id))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(beat, nodes)) == 1
