"""Starts, ends and cancels at the same instant, paid for by a budget and a key, with jobs that wait for the outcome."""

import random
from concurrent.futures import ThreadPoolExecutor

from books import assert_books_agree
from builders import a_job, a_node, a_placement, a_price, a_tenant
from purse_parts import HOUR, a_key, assert_purses_agree, end
from sqlalchemy import Engine
from sqlmodel import Session, col, func, select

from domain.endings import Outcome
from domain.errors import CorralError
from domain.ids import TenantId
from domain.purse import MONTHLY, Unit
from store import array_cancel, assignments, attempts, budgets, purses, requests
from store.assignments import Assigned, PlacementRefused
from store.engine import reading, writing
from store.tables import Allocation, Attempt, Event, Hold, Job, JobArray, JobDependency, Purse

ROUNDS = 6
CONDITIONS = ("success", "failure", "any")


class Racers:
    """Two teams that start, end and cancel their jobs on the same nodes."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.chance = random.Random(11)
        with writing(engine) as session:
            a_price(session, HOUR)
            self.org = a_tenant(session, "org", gpus=None)
            self.teams = [a_tenant(session, name, gpus=6, parent=self.org) for name in ("one", "two")]
            self.nodes = [a_node(session, f"node-{n}", gpus=4) for n in range(3)]
            budgets.put_budget(session, self.org, 10**6 * HOUR)
            self.keys: dict[str, str] = {}
            for team in self.teams:
                self.keys[team] = a_key(session, team, a_key(session, team))
                purses.set_bound(session, team, team, Unit.GPU_TIME, 10**6 * HOUR, MONTHLY)
                purses.set_bound(session, team, self.keys[team], Unit.GPUS_MILLI, 4000)

    def round(self, pool: ThreadPoolExecutor) -> None:
        """A job of each team, one of them of an array, is started, cancelled and ended at once."""
        waiting = []
        for team in self.teams:
            with writing(self.engine) as session:
                job_id, array_id = self._a_watched_job(session, team)
            waiting += [pool.submit(self._live, job_id), pool.submit(self._cancel, team, job_id, array_id)]
        for each in waiting:
            each.result()

    def _a_watched_job(self, session: Session, team: str) -> tuple[str, str | None]:
        more = {"key_id": self.keys[team]}
        job_id = a_job(session, team, **more)
        array_id = f"arr_{job_id}" if self.chance.random() < 0.5 else None
        if array_id is not None:
            session.add(JobArray(id=array_id, tenant_id=team, count=1, unfinished=1, submitted_us=1))
            session.get_one(Job, job_id).array_id = array_id
        for condition in CONDITIONS:
            dependent = a_job(session, team, waits_for=1, name=condition, **more)
            session.add(JobDependency(job_id=dependent, after_id=job_id, condition=condition, is_open=True))
        session.flush()
        return job_id, array_id

    def _live(self, job_id: str) -> None:
        try:
            with writing(self.engine) as session:
                placement = a_placement(session, job_id, self.chance.choice(self.nodes))
                assignments.lock_for(session, [placement])
                with session.begin_nested():
                    assigned = assignments.assign(session, placement)
            with writing(self.engine) as session:
                attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
            with writing(self.engine) as session:
                attempts.started(session, assigned.node_id, assigned.attempt_id, assigned.fence, 0, {})
            self._end(assigned)
        except (PlacementRefused, CorralError):
            return  # the cancel was faster

    def _end(self, assigned: Assigned) -> None:
        with writing(self.engine) as session:
            is_told = session.get_one(Attempt, assigned.attempt_id).stop_reason
            end(session, assigned, 1000, Outcome.CANCELLED if is_told else Outcome.EXITED)

    def _cancel(self, team: str, job_id: str, array_id: str | None) -> None:
        try:
            with writing(self.engine) as session:
                if array_id is None:
                    requests.cancel(session, TenantId(team), job_id)
                else:
                    array_cancel.cancel_array(session, TenantId(team), None, array_id)
        except CorralError:
            return  # it was over


def test_start_end_and_cancel_at_once_leave_one_end_and_nothing_held(engine: Engine) -> None:
    """And each job that waited for the outcome is let go or cancelled, once. Nobody waits for anybody in a circle."""
    racers = Racers(engine)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(ROUNDS):
            racers.round(pool)
    with reading(engine) as session:
        assert_books_agree(session)
        assert_purses_agree(session)
        assert not session.exec(select(Hold)).all()
        assert not session.exec(select(Purse).where(Purse.held != 0)).all()
        assert not session.exec(select(Allocation).where(col(Allocation.until_us).is_(None))).all()
        watched = session.exec(select(Job).where(col(Job.name).is_(None))).all()
        assert {job.state for job in watched} <= {"succeeded", "cancelled"}
        for job in watched:
            _check_dependents(session, job)
        for array in session.exec(select(JobArray)):
            assert array.unfinished == 0
            assert array.running_used == 0


def _check_dependents(session: Session, job: Job) -> None:
    query = select(Job, JobDependency).join(JobDependency, col(JobDependency.job_id) == Job.id)
    for dependent, edge in session.exec(query.where(JobDependency.after_id == job.id)):
        ended = select(func.count()).where(col(Event.job_id) == dependent.id, Event.what == "job_cancelled")
        is_met = edge.condition in ("any", "success" if job.state == "succeeded" else "failure")
        assert (dependent.state, session.exec(ended).one()) == (("queued", 0) if is_met else ("cancelled", 1))
        assert (dependent.waits_for, edge.is_open) == (0, False)
