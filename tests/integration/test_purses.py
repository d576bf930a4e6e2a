"""Purses on a real database: no admission passes a bound, and nothing of a balance is lost."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from books import assert_books_agree
from builders import a_job, a_node, a_price, a_tenant
from ledger_parts import a_keyring
from purse_parts import HOUR, a_key, assert_purses_agree, end, start
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session, col, select, update

from domain import budget
from domain.endings import Outcome
from domain.errors import Invalid
from domain.ids import TenantId
from domain.purse import MONTHLY, TOTAL, Unit
from store import ledger, purses
from store.adjustments import adjust
from store.assignments import PlacementRefused
from store.clock import now_us
from store.engine import reading, writing
from store.tables import Allocation, Attempt, Event, Hold, Node, Price, Purse

PRICE = 3_600_000_000
"""For a GPU-hour: a millionth of a currency's thousand for each microsecond, so that sums are easily seen."""
MOST = budget.longest_us(HOUR, 1_000_000)
"""What a job of `a_job` costs at most, in microseconds of its one GPU, and at this price in millionths too."""


def purse(session: Session, owner: str, unit: Unit = Unit.MONEY, period: str = TOTAL) -> Purse:
    return session.get_one(Purse, (owner, unit.value, period), populate_existing=True)


def a_cluster(session: Session, bound: int | None, gpus: int = 8) -> tuple[str, str]:
    """A tenant with a budget, and a node."""
    a_price(session, PRICE)
    tenant_id = a_tenant(session, gpus=None)
    if bound is not None:
        purses.set_bound(session, tenant_id, tenant_id, Unit.MONEY, bound)
    return tenant_id, a_node(session, gpus=gpus)


def test_the_most_is_held_at_the_start_and_what_was_not_used_is_let_go_at_the_end(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, 10 * MOST)
        assigned = start(session, a_job(session, tenant_id, gpus=2), node_id)
        found = purse(session, tenant_id)
        assert (found.held, found.spent) == (2 * MOST, 0)
        end(session, assigned, 1000)
        waited = (
            session.get_one(Attempt, assigned.attempt_id).ended_us
            - session.get_one(Attempt, assigned.attempt_id).assigned_us
        )
        session.expire_all()
        found = purse(session, tenant_id)
        assert (found.held, found.spent) == (0, 2 * waited)
        assert_purses_agree(session)
        assert_books_agree(session)


def test_a_job_that_could_cost_more_than_is_left_does_not_start_and_leaves_no_trace(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, 2 * MOST - 1)
        start(session, a_job(session, tenant_id), node_id)
        with pytest.raises(PlacementRefused):
            start(session, a_job(session, tenant_id), node_id)
        assert purse(session, tenant_id).held == MOST
        assert len(session.exec(select(Attempt)).all()) == 1
        assert_purses_agree(session)


def test_a_purse_of_a_tenant_above_bounds_all_below_it(engine: Engine) -> None:
    with writing(engine) as session:
        above, node_id = a_cluster(session, MOST)
        teams = [a_tenant(session, name, gpus=None, parent=above) for name in ("red", "blue")]
        start(session, a_job(session, teams[0]), node_id)
        with pytest.raises(PlacementRefused):
            start(session, a_job(session, teams[1]), node_id)
        assert_purses_agree(session)


def test_of_a_hundred_jobs_that_race_for_a_budget_no_more_start_than_it_can_pay(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, 7 * MOST + MOST // 2, gpus=100)
        jobs = [a_job(session, tenant_id) for _ in range(100)]
    gate = threading.Barrier(4)

    def race(number: int) -> int:
        gate.wait()
        started = 0
        for job_id in jobs[number::4]:
            try:
                with writing(engine) as session:
                    start(session, job_id, node_id)
                started += 1
            except PlacementRefused:
                continue
        return started

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(race, range(4))) == 7
    with reading(engine) as session:
        assert purse(session, tenant_id).held == 7 * MOST
        assert_purses_agree(session)
        assert_books_agree(session)


def test_the_database_refuses_to_hold_beyond_the_bound_and_nothing_else(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, _ = a_cluster(session, 10)
    with pytest.raises(DBAPIError), writing(engine) as session:
        session.execute(text("UPDATE purse SET held = 11"))
    with writing(engine) as session:
        session.execute(text("UPDATE purse SET held = 4, spent = 5"))
        session.execute(text("UPDATE purse SET spent = 50, held = 3"))
        session.execute(text("UPDATE purse SET bound = 1"))
        assert purse(session, tenant_id).held == 3


def test_a_fault_of_the_platform_costs_nothing(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, MOST)
        end(session, start(session, a_job(session, tenant_id), node_id), HOUR, Outcome.SANDBOX_ERROR)
        assert (purse(session, tenant_id).held, purse(session, tenant_id).spent) == (0, 0)
        assert_purses_agree(session)


def test_hours_that_are_posted_while_it_runs_move_from_held_to_spent(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, 5 * MOST)
        assigned = start(session, a_job(session, tenant_id, time_limit_us=4 * HOUR), node_id)
        began = now_us(session) - 2 * HOUR
        _move_back(session, assigned.attempt_id, began)
        session.execute(update(Node).values(last_beat_us=began + 2 * HOUR))
        assert ledger.post_open(session) == 1
        found = purse(session, tenant_id)
        assert (found.held, found.spent) == (4 * HOUR + budget.longest_us(0, 1_000_000) - 2 * HOUR, 2 * HOUR)
        assert_purses_agree(session)
        end(session, assigned, 2 * HOUR, Outcome.NODE_LOST)  # what was posted is taken back
        assert (purse(session, tenant_id).held, purse(session, tenant_id).spent) == (0, 0)
        assert_purses_agree(session)


def test_what_ran_already_when_a_budget_was_given_is_spent_from_it_and_was_never_held(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, None)
        assigned = start(session, a_job(session, tenant_id), node_id)
        purses.set_bound(session, tenant_id, tenant_id, Unit.MONEY, 100)
        end(session, assigned, HOUR)
        assert purse(session, tenant_id).spent >= HOUR
        assert purse(session, tenant_id).held == 0
        assert_purses_agree(session)


def test_a_price_that_changes_changes_nothing_for_what_runs(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, 5 * MOST)
        assigned = start(session, a_job(session, tenant_id), node_id)
        session.execute(update(Price).values(micro_per_gpu_hour=10 * PRICE))
        end(session, assigned, HOUR)
        assert HOUR <= purse(session, tenant_id).spent <= MOST
        with pytest.raises(PlacementRefused):
            start(session, a_job(session, tenant_id), node_id)
        assert_purses_agree(session)


def test_a_month_counts_what_lies_in_it_and_holds_for_the_next_what_may_lie_there(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, None)
        purses.set_bound(session, tenant_id, tenant_id, Unit.GPU_TIME, 1000 * HOUR, MONTHLY)
        now = now_us(session)
        this, following = budget.month_of(now), budget.month_of(budget.month_end(now))
        until_end = budget.month_end(now) - now
        assigned = start(session, a_job(session, tenant_id, time_limit_us=until_end + HOUR), node_id)
        rest = purse(session, tenant_id, Unit.GPU_TIME, following)
        held = rest.held
        assert HOUR < held < 2 * HOUR
        assert rest.bound == 1000 * HOUR
    with writing(engine) as session:
        end(session, assigned, until_end + HOUR)
        assert HOUR <= purse(session, tenant_id, Unit.GPU_TIME, following).spent <= held
        spent = purse(session, tenant_id, Unit.GPU_TIME, this).spent
        assert until_end - HOUR < spent <= until_end
        assert_purses_agree(session)


def test_a_month_that_is_full_refuses_and_a_bound_that_is_raised_admits(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, None)
        purses.set_bound(session, tenant_id, tenant_id, Unit.GPU_TIME, 1000, MONTHLY)
        job_id = a_job(session, tenant_id)
        with pytest.raises(PlacementRefused):
            start(session, job_id, node_id)
        purses.set_bound(session, tenant_id, tenant_id, Unit.GPU_TIME, 2 * MOST, MONTHLY)
        start(session, job_id, node_id)
        purses.set_bound(session, tenant_id, tenant_id, Unit.GPU_TIME, None, MONTHLY)
        assert session.exec(select(Purse)).all() == []
        assert session.exec(select(Hold)).all() == []


def test_a_month_begins_with_what_was_used_in_it_before_there_was_a_bound(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, None)
        end(session, start(session, a_job(session, tenant_id), node_id), 1_000)
        purses.set_bound(session, tenant_id, tenant_id, Unit.MONEY, 10 * MOST, MONTHLY)
        purses.set_bound(session, tenant_id, tenant_id, Unit.MONEY, 10 * MOST)
        months = [each for each in purses.purses_of(session, tenant_id) if each.period != TOTAL]
        assert months[0].spent >= 1_000
        assert purse(session, tenant_id).spent == 0
        assert_purses_agree(session)


def test_what_an_admin_credits_for_a_job_is_its_tenants_and_not_its_keys(engine: Engine, tmp_path: Path) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, 10 * MOST)
        key_id = a_key(session, tenant_id)
        purses.open_purse(session, tenant_id, key_id, Unit.MONEY, 10 * MOST)
        job_id = a_job(session, tenant_id, key_id=key_id)
        end(session, start(session, job_id, node_id), HOUR)
        used = purse(session, tenant_id).spent
        assert used > 5
        adjust(session, a_keyring(tmp_path), TenantId(tenant_id), -5, "sorry", "key_admin", job_id)
        assert (purse(session, tenant_id).spent, purse(session, key_id).spent) == (used - 5, used)
        assert_purses_agree(session)


def test_each_threshold_is_warned_of_once_and_again_after_a_top_up(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, _ = a_cluster(session, 100)
        for micro in (30, 30, 15, 10, 20, 5):  # 30, 60, 75, 85, 105, 110
            purses.adjust(session, tenant_id, micro, now_us(session))
        assert warnings(session) == [50, 80, 100]
        purses.adjust(session, tenant_id, -60, now_us(session))  # a correction is no top-up
        purses.adjust(session, tenant_id, 60, now_us(session))
        assert warnings(session) == [50, 80, 100]
        purses.set_bound(session, tenant_id, tenant_id, Unit.MONEY, 200)
        purses.adjust(session, tenant_id, 50, now_us(session))
        assert warnings(session) == [50, 80, 100, 80]
        purses.set_bound(session, tenant_id, tenant_id, Unit.MONEY, 100)
        assert warnings(session) == [50, 80, 100, 80, 100]


def warnings(session: Session) -> list[int]:
    found = session.exec(select(Event).where(Event.what == "budget_warning").order_by(col(Event.id)))
    return [each.data["percent"] for each in found]


def test_a_bound_that_no_column_holds_is_refused(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, _ = a_cluster(session, 1)
        for wrong in (-1, budget.MOST + 1):
            with pytest.raises(Invalid):
                purses.set_bound(session, tenant_id, tenant_id, Unit.MONEY, wrong)
        assert purse(session, tenant_id).bound == 1


def _move_back(session: Session, attempt_id: str, at_us: int) -> None:
    """As if the attempt had been assigned and started then."""
    session.execute(
        update(Allocation).where(col(Allocation.attempt_id) == attempt_id).values(from_us=at_us, posted_until_us=at_us)
    )
    session.execute(
        update(Attempt)
        .where(col(Attempt.id) == attempt_id)
        .values(assigned_us=at_us, claimed_us=at_us, started_us=at_us)
    )


def test_a_key_pays_from_its_own_purse_and_from_that_of_the_key_that_made_it(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, None)
        parent = a_key(session, tenant_id)
        children = [a_key(session, tenant_id, parent) for _ in range(2)]
        purses.set_bound(session, tenant_id, parent, Unit.MONEY, 2 * MOST)
        purses.set_bound(session, tenant_id, children[0], Unit.GPU_TIME, MOST)
        running = start(session, a_job(session, tenant_id, key_id=children[0]), node_id)
        with pytest.raises(PlacementRefused):  # its own GPU-hours
            start(session, a_job(session, tenant_id, key_id=children[0]), node_id)
        start(session, a_job(session, tenant_id, key_id=children[1]), node_id)
        with pytest.raises(PlacementRefused):  # the money of the key above both
            start(session, a_job(session, tenant_id, key_id=children[1]), node_id)
        start(session, a_job(session, tenant_id), node_id)
        assert purse(session, parent).held == 2 * MOST
        end(session, running, HOUR)
        assert HOUR <= purse(session, children[0], Unit.GPU_TIME).spent <= MOST
        assert_purses_agree(session)


def test_a_key_has_no_more_gpus_at_once_than_it_may_and_gets_them_back(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_cluster(session, None)
        key_id = a_key(session, tenant_id)
        purses.set_bound(session, tenant_id, key_id, Unit.GPUS_MILLI, 3000)
        first = start(session, a_job(session, tenant_id, gpus=2, key_id=key_id), node_id)
        with pytest.raises(PlacementRefused):
            start(session, a_job(session, tenant_id, gpus=2, key_id=key_id), node_id)
        end(session, first, HOUR)
        found = purse(session, key_id, Unit.GPUS_MILLI)
        assert (found.held, found.spent) == (0, 0)
        start(session, a_job(session, tenant_id, gpus=3, key_id=key_id), node_id)
        assert_purses_agree(session)
