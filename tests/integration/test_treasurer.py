"""A spent purse: new jobs are held with the reason, running preemptible ones are stopped and parked, and a top-up
lets exactly those go on."""

import pytest
from builders import a_job, a_node, a_price, a_tenant
from purse_parts import HOUR, assert_purses_agree, end, start
from sqlalchemy import Engine
from sqlmodel import Session, col, select, update

from control.dispatcher import Dispatcher
from control.treasurer import Treasurer
from domain import budget
from domain.endings import Outcome
from domain.errors import HeldByPurse
from domain.ids import AttemptId, Fence, JobId, NodeId
from domain.purse import MONTHLY, Unit
from store import budgets, purses, requests
from store.assignments import Assigned
from store.clock import now_us
from store.engine import reading, writing
from store.leader import ensure_lease, read_lease, take_lease
from store.tables import Allocation, Attempt, Event, Job, Node

PRICE = 3_600_000_000
MOST = budget.longest_us(HOUR, 1_000_000)


class Recorder:
    """Notes what is sent."""

    def __init__(self) -> None:
        self.stopped: list[AttemptId] = []
        self.told: list[JobId] = []

    def wake(self) -> None:
        pass

    def launch(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None:
        pass

    def stop(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None:
        self.stopped.append(attempt_id)

    def changed(self, *job_ids: JobId) -> None:
        self.told.extend(job_ids)


class Control:
    """A leader's dispatcher and treasurer."""

    def __init__(self, engine: Engine) -> None:
        with writing(engine) as session:
            ensure_lease(session)
            seen = read_lease(session)
            assert seen is not None
            epoch = take_lease(session, "me", seen)
        assert epoch is not None
        self.hints = Recorder()
        self.dispatcher = Dispatcher(engine, self.hints, epoch)
        self.treasurer = Treasurer(engine, self.hints, epoch)

    def step(self) -> None:
        """What the leader does in a few seconds."""
        self.dispatcher.run_pass()
        self.treasurer.look()


@pytest.fixture
def control(engine: Engine) -> Control:
    return Control(engine)


def a_cluster(session: Session, bound: int | None = None) -> tuple[str, str]:
    a_price(session, PRICE)
    tenant_id = a_tenant(session, gpus=None)
    grant(session, tenant_id, bound)
    return tenant_id, a_node(session)


def grant(session: Session, tenant_id: str, bound: int | None) -> None:
    budgets.put_budget(session, tenant_id, bound)


def states(engine: Engine, *job_ids: str) -> list[tuple[str, str | None]]:
    with reading(engine) as session:
        return [(job.state, job.reason_code) for job in (session.get_one(Job, each) for each in job_ids)]


def ran_since(session: Session, assigned: Assigned, us: int) -> None:
    """As if it had been assigned and started so long ago, and its node had just been heard."""
    at_us = now_us(session) - us
    session.execute(
        update(Allocation)
        .where(col(Allocation.attempt_id) == assigned.attempt_id)
        .values(from_us=at_us, posted_until_us=at_us)
    )
    session.execute(
        update(Attempt)
        .where(col(Attempt.id) == assigned.attempt_id)
        .values(assigned_us=at_us, claimed_us=at_us, started_us=at_us)
    )
    session.execute(update(Node).values(last_beat_us=at_us + us))


def test_a_spent_budget_holds_new_jobs_and_a_top_up_lets_go_of_those_and_of_no_others(
    engine: Engine, control: Control
) -> None:
    with writing(engine) as session:
        tenant_id, _ = a_cluster(session, 0)
        waiting, by_hand = a_job(session, tenant_id), a_job(session, tenant_id)
        free = a_job(session, tenant_id, gpus=0)
        requests.hold(session, None, by_hand)
    control.step()
    assert states(engine, waiting, by_hand, free) == [
        ("held", "budget_exhausted"), ("held", "held"), ("running", None),
    ]  # fmt: skip
    with reading(engine) as session:
        job = session.get_one(Job, waiting)
        assert job.reason_text == "the budget of 0.00 is spent; a top-up by an admin releases it"
        told = session.exec(select(Event).where(Event.job_id == waiting, Event.what == "job_held")).one()
        assert told.text == job.reason_text
    control.step()
    assert states(engine, waiting)[0] == ("held", "budget_exhausted")
    with writing(engine) as session:
        assert budgets.top_up(session, tenant_id, 2 * MOST, "more") == [waiting]
    control.step()
    assert states(engine, waiting, by_hand) == [("running", None), ("held", "held")]


def test_a_job_that_a_budget_holds_is_not_released_by_hand_and_may_be_held_by_hand_too(
    engine: Engine, control: Control
) -> None:
    with writing(engine) as session:
        tenant_id, _ = a_cluster(session, 0)
        first, second = a_job(session, tenant_id), a_job(session, tenant_id)
    control.step()
    with pytest.raises(HeldByPurse), writing(engine) as session:
        requests.release(session, None, first)
    with writing(engine) as session:
        requests.hold(session, None, first)
        requests.cancel(session, None, second)
        grant(session, tenant_id, 10 * MOST)
    control.step()
    assert states(engine, first, second) == [("held", "held"), ("cancelled", "budget_exhausted")]
    with writing(engine) as session:
        requests.release(session, None, first)
    control.step()
    assert states(engine, first) == [("running", None)]


def test_a_budget_that_is_spent_in_the_middle_parks_what_may_be_stopped_and_lets_the_rest_go_on(
    engine: Engine, control: Control
) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, 10 * MOST)
        may = a_job(session, tenant_id, spec={"preemptible": True})
        may_not = a_job(session, tenant_id)
        parked, stays = start(session, may, node_id), start(session, may_not, node_id)
        ran_since(session, parked, HOUR // 4)
        ran_since(session, stays, HOUR // 4)
    control.step()
    assert control.hints.stopped == []
    with writing(engine) as session:
        grant(session, tenant_id, HOUR // 3)  # what was not posted yet counts as well
    control.step()
    control.step()
    assert control.hints.stopped == [parked.attempt_id]
    with writing(engine) as session:
        assert session.get_one(Attempt, parked.attempt_id).stop_reason == "budget_exhausted"
        end(session, parked, HOUR // 4, Outcome.BUDGET_EXHAUSTED)
        assert session.get_one(Job, may).tries_by_tenant == 0
        assert_purses_agree(session)
        end(session, stays, HOUR // 2)
        assert_purses_agree(session)
    control.step()
    assert states(engine, may, may_not) == [("held", "budget_exhausted"), ("succeeded", None)]
    with writing(engine) as session:
        budgets.top_up(session, tenant_id, 10 * MOST, "go on")
    control.step()
    assert states(engine, may) == [("running", None)]


def test_a_parked_job_that_somebody_cancelled_meanwhile_is_cancelled(engine: Engine, control: Control) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, 10 * MOST)
        job_id = a_job(session, tenant_id, spec={"preemptible": True})
        assigned = start(session, job_id, node_id)
        ran_since(session, assigned, HOUR)
        grant(session, tenant_id, 1)
    control.treasurer.look()
    with writing(engine) as session:
        requests.cancel(session, None, job_id)
        end(session, assigned, HOUR, Outcome.BUDGET_EXHAUSTED)
    assert states(engine, job_id)[0][0] == "cancelled"


def test_a_month_that_is_used_up_holds_until_the_next_or_until_there_is_more(engine: Engine, control: Control) -> None:
    with writing(engine) as session:
        tenant_id, _ = a_cluster(session)
        purses.set_bound(session, tenant_id, tenant_id, Unit.GPU_TIME, 0, MONTHLY)
        job_id = a_job(session, tenant_id)
    control.step()
    assert states(engine, job_id) == [("held", "month_hours_exhausted")]
    with writing(engine) as session:  # the month turns: what is spent is last month's
        purses.set_bound(session, tenant_id, tenant_id, Unit.GPU_TIME, 10 * MOST, MONTHLY)
    control.step()
    control.step()
    assert states(engine, job_id) == [("running", None)]


def test_a_tenant_above_that_has_spent_its_budget_stops_those_below(engine: Engine, control: Control) -> None:
    with writing(engine) as session:
        above, node_id = a_cluster(session)
        team, other = a_tenant(session, "team", gpus=None, parent=above), a_tenant(session, "other", gpus=None)
        jobs = [a_job(session, each, spec={"preemptible": True}) for each in (team, other)]
        running = [start(session, each, node_id) for each in jobs]
        for each in running:
            ran_since(session, each, HOUR)
        grant(session, above, HOUR // 2)  # given while it ran: nothing of it is held
    control.treasurer.look()
    assert control.hints.stopped == [running[0].attempt_id]
    with writing(engine) as session:
        end(session, running[0], HOUR, Outcome.BUDGET_EXHAUSTED)
        job = session.get_one(Job, jobs[0])
        assert (job.state, job.reason_text) == (
            "held", "the budget of a tenant above is spent; a top-up by an admin releases it",
        )  # fmt: skip
        assert job.reason_numbers == {"steps_up": 1}
