"""What the sweeper does about silence, on a clock that the test moves."""

import pytest
from builders import a_job, a_node, a_placement, a_tenant
from sqlalchemy import Engine, update
from sqlmodel import Session, col, select

from control.sweeper import (
    BLIND_SECONDS,
    HINT_AGAIN_SECONDS,
    KILL_SECONDS,
    POLLING_SECONDS,
    PRUNE_SECONDS,
    STOP_AGAIN_SECONDS,
    UNCLAIMED_SECONDS,
    UNREACHABLE_SECONDS,
    Sweeper,
)
from domain.errors import StaleLeader
from domain.ids import AttemptId, Fence, JobId, NodeId
from store import assignments, attempts, nodes
from store.assignments import Assigned
from store.devices_seen import DeviceSeen
from store.engine import reading, writing
from store.leader import Lease, ensure_lease, read_lease, take_lease
from store.tables import Attempt, Event, Gpu, Idempotency, Job, JoinToken, Node

PATIENCE_SECONDS = 900 + 1 + KILL_SECONDS + POLLING_SECONDS
"""Of the builder's job: `max_unreachable` of 15 min, a grace of 1 s, and the margin."""


def as_seen(gpu: Gpu) -> DeviceSeen:
    """As its worker would report it."""
    return DeviceSeen(gpu.uuid, gpu.model, gpu.memory_bytes, False, "ok", "", gpu.used_milli == 0, "", gpu.generation)


class Recorder:
    """Notes what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[object, ...]] = []

    def wake(self) -> None:
        self.sent.append(("wake",))

    def launch(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None:
        self.sent.append(("launch", node_id, attempt_id, fence))

    def stop(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None:
        self.sent.append(("stop", node_id, attempt_id, fence))

    def changed(self, *job_ids: JobId) -> None:
        self.sent.append(("changed", *job_ids))

    def take(self) -> list[tuple[object, ...]]:
        taken, self.sent = self.sent, []
        return taken


class World:
    """One job, assigned to one node, under a sweeper whose clock can be moved."""

    def __init__(self, engine: Engine, **job: object) -> None:
        self.engine = engine
        self.now = 5000.0
        self.hints = Recorder()
        with writing(engine) as session:
            ensure_lease(session)
            epoch = take_lease(session, "me", Lease("", 0, 0))
            tenant_id, self.node_id = a_tenant(session), a_node(session, gpus=2)
            self.job_id = a_job(session, tenant_id, **job)
            self.assigned = self.assign(session)
        assert epoch is not None
        self.sweeper = Sweeper(engine, self.hints, epoch, lambda: self.now)
        self.sweeper.sweep()
        self.hints.take()

    def assign(self, session: Session) -> Assigned:
        placement = a_placement(session, self.job_id, self.node_id)
        assignments.lock_for(session, [placement])
        return assignments.assign(session, placement)

    def claim(self) -> None:
        with writing(self.engine) as session:
            attempts.claim(session, self.node_id, self.assigned.attempt_id, self.assigned.fence)

    def beat(self) -> None:
        with writing(self.engine) as session:
            devices = [as_seen(gpu) for gpu in session.exec(select(Gpu))]
            nodes.heartbeat(session, self.node_id, "boot-1", devices, [], [])

    def pass_time(self, seconds: float, *, beating: bool) -> None:
        """Sweep every few seconds, as the service does."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 5.0, end)
            if beating:
                self.beat()
            self.sweeper.sweep()

    def attempt(self) -> Attempt:
        with reading(self.engine) as session:
            return session.get_one(Attempt, self.assigned.attempt_id)

    def job(self) -> Job:
        with reading(self.engine) as session:
            return session.get_one(Job, self.job_id)

    def node(self) -> Node:
        with reading(self.engine) as session:
            return session.get_one(Node, self.node_id)

    def events(self, what: str) -> int:
        with reading(self.engine) as session:
            return len(session.exec(select(Event).where(Event.what == what)).all())


@pytest.fixture
def world(engine: Engine) -> World:
    return World(engine)


def test_an_assignment_that_nobody_claims_is_told_again(world: World) -> None:
    world.pass_time(HINT_AGAIN_SECONDS, beating=True)
    assert world.hints.take() == [("launch", world.node_id, world.assigned.attempt_id, world.assigned.fence)]
    world.now += 1
    world.sweeper.sweep()
    assert world.hints.take() == []


def test_then_it_is_withdrawn_and_its_job_waits_again(world: World) -> None:
    world.pass_time(UNCLAIMED_SECONDS, beating=True)
    assert (world.attempt().state, world.attempt().outcome) == ("ended", "unclaimed")
    assert world.job().state == "queued"
    assert ("wake",) in world.hints.take()
    with reading(world.engine) as session:
        assert {(gpu.state, gpu.used_milli) for gpu in session.exec(select(Gpu))} == {("clean", 0)}


def test_one_that_was_claimed_is_left_alone(world: World) -> None:
    world.claim()
    world.pass_time(UNCLAIMED_SECONDS * 10, beating=True)
    assert world.attempt().state == "preparing"
    assert world.hints.take() == []


def test_a_silent_node_is_unreachable_and_its_jobs_go_on(world: World) -> None:
    world.claim()
    world.pass_time(UNREACHABLE_SECONDS - 1, beating=False)
    assert world.node().is_reachable
    world.pass_time(1, beating=False)
    assert not world.node().is_reachable
    assert world.events("node_unreachable") == 1
    assert world.attempt().state == "preparing"


def test_it_is_reachable_again_when_it_beats(world: World) -> None:
    world.pass_time(UNREACHABLE_SECONDS, beating=False)
    world.pass_time(UNREACHABLE_SECONDS, beating=True)
    assert world.node().is_reachable
    assert (world.events("node_unreachable"), world.events("node_reachable")) == (1, 1)


def test_an_attempt_is_given_up_after_its_patience_and_the_margin_and_not_before(world: World) -> None:
    world.claim()
    world.pass_time(PATIENCE_SECONDS - 1, beating=False)
    assert world.attempt().state == "preparing"
    world.hints.take()
    world.pass_time(1, beating=False)
    assert (world.attempt().state, world.attempt().outcome) == ("ended", "node_lost")
    assert world.job().state == "queued"
    assert world.hints.take() == [("wake",), ("changed", world.job_id)]


def test_a_job_that_may_wait_for_ever_does(engine: Engine) -> None:
    world = World(engine, max_unreachable_us=None)
    world.claim()
    world.pass_time(PATIENCE_SECONDS, beating=False)
    assert world.attempt().state == "preparing"


def test_an_admins_word_that_the_node_is_lost_ends_its_attempts(engine: Engine) -> None:
    world = World(engine, max_unreachable_us=None)
    world.claim()
    with writing(engine) as session:
        nodes.declare_lost(session, world.node_id)
    world.sweeper.sweep()
    assert world.attempt().outcome == "node_lost"


def test_a_new_leader_counts_afresh(world: World) -> None:
    world.claim()
    world.pass_time(PATIENCE_SECONDS - 1, beating=False)
    with writing(world.engine) as session:
        seen = read_lease(session)
        assert seen is not None
        epoch = take_lease(session, "next", seen)
    assert epoch is not None
    world.sweeper = Sweeper(world.engine, world.hints, epoch, lambda: world.now)
    world.pass_time(PATIENCE_SECONDS - 1, beating=False)
    assert world.attempt().state == "preparing"


def test_a_sweeper_that_was_blind_counts_afresh(world: World) -> None:
    world.claim()
    world.pass_time(PATIENCE_SECONDS - 1, beating=False)
    world.now += BLIND_SECONDS + 10_000
    world.sweeper.sweep()
    assert world.attempt().state == "preparing"


def test_a_stop_that_was_not_heard_is_told_again_and_again(world: World) -> None:
    world.claim()
    with writing(world.engine) as session:
        attempts.order_stop(session, world.assigned.attempt_id, "cancelled")
    world.pass_time(1, beating=True)
    world.pass_time(STOP_AGAIN_SECONDS * 2, beating=True)
    stop = ("stop", world.node_id, world.assigned.attempt_id, world.assigned.fence)
    assert world.hints.take() == [stop, stop]


def test_nothing_is_piled_up_for_a_node_that_is_away(world: World) -> None:
    world.claim()
    with writing(world.engine) as session:
        attempts.order_stop(session, world.assigned.attempt_id, "cancelled")
    world.pass_time(UNREACHABLE_SECONDS, beating=False)
    world.hints.take()
    world.pass_time(UNREACHABLE_SECONDS * 5, beating=False)
    assert world.hints.take() == []


def test_the_old_leaders_sweeper_changes_nothing(world: World) -> None:
    with writing(world.engine) as session:
        seen = read_lease(session)
        assert seen is not None
        take_lease(session, "next", seen)
    world.pass_time(UNCLAIMED_SECONDS - 1, beating=True)
    with pytest.raises(StaleLeader):
        world.pass_time(1, beating=True)
    assert world.attempt().state == "assigned"


def test_one_attempt_that_cannot_be_withdrawn_does_not_keep_the_others(world: World) -> None:
    with writing(world.engine) as session:
        other = a_job(session, world.job().tenant_id)
        placement = a_placement(session, other, world.node_id)
        assignments.lock_for(session, [placement])
        assignments.assign(session, placement)
        # a row that makes no sense: the retry rules of the first job are no list
        session.execute(update(Job).where(col(Job.id) == world.job_id).values(retry_on=7))
    world.pass_time(UNCLAIMED_SECONDS, beating=True)
    world.pass_time(5, beating=True)
    assert world.attempt().state == "assigned"
    with reading(world.engine) as session:
        assert session.get_one(Job, other).state == "queued"


def test_old_answers_and_tokens_are_taken_away(world: World) -> None:
    with writing(world.engine) as session:
        session.add(
            Idempotency(caller="ten", key="k", route="r", body_sha256="b", status=201, answer=b"", created_us=1)
        )
        session.add(JoinToken(id="tok_1", secret_sha256="s", node_name="n", created_us=1, expires_us=2))
    world.pass_time(PRUNE_SECONDS, beating=True)
    with reading(world.engine) as session:
        assert session.exec(select(Idempotency)).all() == []
        assert session.exec(select(JoinToken)).all() == []
