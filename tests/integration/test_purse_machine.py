"""Any sequence of starts, stops, kills, prices, adjustments and top-ups: the sums agree and no balance is lost."""

from typing import Any

from books import assert_books_agree
from builders import a_job, a_node, a_tenant
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from purse_parts import HOUR, a_key, assert_purses_agree, end, start
from sqlalchemy import Engine
from sqlmodel import Session, col, select, update

from domain.endings import Outcome
from domain.errors import Conflict, Invalid
from domain.purse import MONTHLY, Unit
from store import budgets, ends, ledger, parking, purses
from store.assignments import Assigned, PlacementRefused
from store.clock import now_us
from store.engine import writing
from store.ids import new_id
from store.prices import set_price
from store.tables import Allocation, Attempt, Hold, Job, LedgerEntry, Node, Purse

SOME = st.integers(min_value=HOUR, max_value=30 * HOUR)
BOUNDS = st.one_of(SOME, SOME, SOME, st.none(), st.integers(min_value=0, max_value=2 * HOUR))
PRICES = st.integers(min_value=0, max_value=3 * 3_600_000_000)
ENDINGS = [
    Outcome.EXITED, Outcome.TIME_LIMIT, Outcome.PREEMPTED, Outcome.SANDBOX_ERROR, Outcome.BUDGET_EXHAUSTED,
    Outcome.CANCELLED, Outcome.GPU_FAULT, Outcome.IMAGE_ERROR,
]  # fmt: skip


class Spending(RuleBasedStateMachine):
    """An organisation, a team of it and a key made by a key: they run, pay and are granted more or less."""

    engine: Engine

    def __init__(self) -> None:
        super().__init__()
        self.running: list[Assigned] = []
        with writing(self.engine) as session:
            self.org = a_tenant(session, new_id("ten"), gpus=None)
            self.team = a_tenant(session, new_id("ten"), gpus=None, parent=self.org)
            self.node = a_node(session, new_id("nod"), gpus=6)
            self.key = a_key(session, self.team)
            self.child = a_key(session, self.team, self.key)

    @initialize(price=PRICES, org=BOUNDS, team=BOUNDS, key=BOUNDS)
    def begin(self, price: int, org: int | None, team: int | None, key: int | None) -> None:
        self.reprice(price)
        self.grant(False, org, org, org)
        self.grant(True, team, None, team)
        self.bound_key(False, key, None, 4000)

    @rule(
        of_team=st.booleans(),
        with_key=st.booleans(),
        gpus=st.integers(min_value=0, max_value=3),
        limit_us=st.sampled_from([HOUR // 10, HOUR, 3 * HOUR]),
        ago_us=st.integers(min_value=0, max_value=5 * HOUR),
    )
    def start(self, of_team: bool, with_key: bool, gpus: int, limit_us: int, ago_us: int) -> None:
        """It was assigned so long ago; or it is refused, and leaves no trace."""
        tenant_id = self.team if of_team or with_key else self.org
        key_id = self.child if with_key else None
        with writing(self.engine) as session:
            job_id = a_job(
                session, tenant_id, gpus=gpus, time_limit_us=limit_us, key_id=key_id, spec={"preemptible": True}
            )
        try:
            with writing(self.engine) as session:
                assigned = start(session, job_id, self.node)
                for row in session.exec(select(Hold).where(Hold.attempt_id == assigned.attempt_id)):
                    purse = session.get_one(Purse, (row.owner_id, row.unit, row.period))
                    assert purse.held + purse.spent <= purse.bound
                _move_back(session, assigned.attempt_id, ago_us)
        except PlacementRefused:
            return
        self.running.append(assigned)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), run_us=st.integers(min_value=0, max_value=6 * HOUR), outcome=st.sampled_from(ENDINGS))
    def end(self, data: st.DataObject, run_us: int, outcome: Outcome) -> None:
        assigned = self.running.pop(data.draw(st.integers(min_value=0, max_value=len(self.running) - 1)))
        with writing(self.engine) as session:
            end(session, assigned, run_us, outcome)

    @precondition(lambda self: self.running)
    @rule()
    def lose(self) -> None:
        with writing(self.engine) as session:
            ends.lose(session, self.running.pop().attempt_id)

    @rule(micro=PRICES)
    def reprice(self, micro: int) -> None:
        with writing(self.engine) as session:
            set_price(session, "*", micro)

    @rule(before_us=st.integers(min_value=0, max_value=4 * HOUR))
    def post(self, before_us: int) -> None:
        """The hours are posted, up to what was heard last of the node."""
        with writing(self.engine) as session:
            session.execute(
                update(Node).where(col(Node.id) == self.node).values(last_beat_us=now_us(session) - before_us)
            )
            ledger.post_open(session)

    @rule(of_team=st.booleans(), micro=st.integers(min_value=-2 * HOUR, max_value=2 * HOUR))
    def adjust(self, of_team: bool, micro: int) -> None:
        tenant_id = self.team if of_team else self.org
        with writing(self.engine) as session:
            now = now_us(session)
            ledger.append(session, an_adjustment(tenant_id, micro, now))
            purses.adjust(session, tenant_id, micro, now)

    @rule(of_team=st.booleans(), total=BOUNDS, month=BOUNDS, hours=BOUNDS)
    def grant(self, of_team: bool, total: int | None, month: int | None, hours: int | None) -> None:
        tenant_id = self.team if of_team else self.org
        with writing(self.engine) as session:
            budgets.put_budget(session, tenant_id, total)
            purses.set_bound(session, tenant_id, tenant_id, Unit.MONEY, month, MONTHLY)
            purses.set_bound(session, tenant_id, tenant_id, Unit.GPU_TIME, hours, MONTHLY)

    @rule(of_team=st.booleans(), micro=st.integers(min_value=-HOUR, max_value=4 * HOUR))
    def top_up(self, of_team: bool, micro: int) -> None:
        try:
            with writing(self.engine) as session:
                budgets.top_up(session, self.team if of_team else self.org, micro, "")
        except (Conflict, Invalid):
            return

    @rule(of_child=st.booleans(), money=BOUNDS, hours=BOUNDS, gpus=st.integers(min_value=0, max_value=4000))
    def bound_key(self, of_child: bool, money: int | None, hours: int | None, gpus: int) -> None:
        with writing(self.engine) as session:
            for unit, bound in ((Unit.MONEY, money), (Unit.GPU_TIME, hours), (Unit.GPUS_MILLI, gpus)):
                purses.set_bound(session, self.team, self.child if of_child else self.key, unit, bound)

    @rule()
    def look_after(self) -> None:
        """What the treasurer does."""
        with writing(self.engine) as session:
            for attempt_id in parking.overdrawn(session):
                parking.stop(session, attempt_id)
            parking.let_go_payable(session)

    @invariant()
    def the_books_agree(self) -> None:
        with writing(self.engine) as session:
            assert_purses_agree(session)

    def teardown(self) -> None:
        with writing(self.engine) as session:
            for assigned in self.running:
                ends.lose(session, assigned.attempt_id)
            assert_purses_agree(session)
            assert_books_agree(session)
            owners = [self.org, self.team, self.key, self.child]
            left = session.exec(select(Purse).where(col(Purse.owner_id).in_(owners))).all()
            assert all(each.held == 0 for each in left)


def test_whatever_happens_the_sums_agree_and_no_balance_is_lost(engine: Engine) -> None:
    class Machine(Spending):
        pass

    Machine.engine = engine
    examples = 4 if engine.dialect.name == "postgresql" else 8
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def an_adjustment(tenant_id: str, micro: int, now: int) -> LedgerEntry:
    values: dict[str, Any] = {
        "id": new_id("ent"), "tenant_id": tenant_id, "seq": 0, "cause": "adjustment", "kind": "adjustment",
        "from_us": now, "until_us": now, "duration_us": 0, "share_milli": 0, "price_micro_per_gpu_hour": 0,
        "cost_micro": micro, "posted_us": now, "reason": "a test", "prev_hash": "", "hash": "",
    }  # fmt: skip
    return LedgerEntry(**values)


def _move_back(session: Session, attempt_id: str, us: int) -> None:
    """As if it had been assigned and started so long before."""
    session.execute(
        update(Allocation)
        .where(col(Allocation.attempt_id) == attempt_id)
        .values(from_us=Allocation.from_us - us, posted_until_us=Allocation.posted_until_us - us)
    )
    attempt = session.get_one(Attempt, attempt_id, populate_existing=True)
    attempt.assigned_us -= us
    attempt.claimed_us = (attempt.claimed_us or 0) - us
    attempt.started_us = (attempt.started_us or 0) - us
    assert session.get_one(Job, attempt.job_id).fence
