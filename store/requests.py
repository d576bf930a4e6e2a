"""What a tenant asks of its own jobs: cancel, hold, release."""

from dataclasses import dataclass

from sqlmodel import Session, col, select

from domain.endings import Outcome
from domain.errors import HeldByPurse, InvalidTransition, NotFound
from domain.ids import TenantId
from domain.purse_words import EXHAUSTED
from domain.scheduling.reasons import waiting_for_jobs
from domain.states import JobEvent, JobState, next_job_state
from store.attempts import StopHint, order_stop
from store.clock import now_us
from store.dependencies import Over, settle
from store.ends import withdraw
from store.events import record
from store.locks import lock_where_it_runs
from store.quotas import leave_queue
from store.scopes import reaches
from store.tables import Attempt, Job


@dataclass(frozen=True, slots=True)
class Done:
    """A request that was carried out, and the node that should hear of it."""

    job: Job
    stop: StopHint | None = None


def cancel(session: Session, scope: TenantId | None, job_id: str) -> Done:
    """End the job wherever it stands. Cancelling a cancelled job changes nothing.

    Raises:
        InvalidTransition: it already succeeded or failed.
    """
    job = _lock(session, scope, job_id)
    if job.state == JobState.CANCELLED:
        return Done(job)
    if job.state != JobState.RUNNING:
        _move(session, job, JobEvent.CANCEL)
        leave_queue(session, job.tenant_id)
        job.outcome, job.ended_us = Outcome.CANCELLED, now_us(session)
        session.flush()
        settle(session, [Over(job.id, job.array_id, is_success=False)])
        return Done(job)
    if not job.cancel_requested:
        job.cancel_requested = True
        record(session, "cancel_requested", tenant_id=job.tenant_id, job_id=job.id, text="somebody asked to cancel it")
        session.flush()
    return Done(job, _stop_attempt(session, job))


def hold(session: Session, scope: TenantId | None, job_id: str) -> Done:
    """Keep a queued job from starting until it is released.

    Raises:
        InvalidTransition: it is not queued; a running job can be cancelled only.
    """
    job = _lock(session, scope, job_id)
    if job.state == JobState.RUNNING:
        raise InvalidTransition("job", job.state, JobEvent.HOLD)
    if job.state != JobState.HELD or job.reason_code in EXHAUSTED:  # held by a person now, whatever is topped up
        _move(session, job, JobEvent.HOLD)
        job.reason_code, job.reason_text, job.reason_numbers = "held", "held until somebody releases it", {}
    return Done(job)


def release(session: Session, scope: TenantId | None, job_id: str) -> Done:
    """Let a held job wait for its start again. Releasing a queued job changes nothing.

    Raises:
        InvalidTransition: it is neither held nor queued.
        HeldByPurse: what should pay for it is spent.
    """
    job = _lock(session, scope, job_id)
    if job.state == JobState.HELD and job.reason_code in EXHAUSTED:
        raise HeldByPurse(job.reason_text or "what pays for it is spent")
    if job.state != JobState.QUEUED:
        _move(session, job, JobEvent.RELEASE)
        reason = waiting_for_jobs(job.waits_for) if job.waits_for else None
        job.reason_code, job.reason_text = (reason.code, reason.text) if reason else (None, None)
        job.reason_numbers = dict(reason.numbers) if reason else None
    return Done(job)


def _stop_attempt(session: Session, job: Job) -> StopHint | None:
    """Stop the live attempt: at once if nobody claimed it, through its node otherwise."""
    attempt_id = session.exec(select(Attempt.id).where(Attempt.job_id == job.id, col(Attempt.state) != "ended")).first()
    if attempt_id is None or withdraw(session, attempt_id, Outcome.CANCELLED):
        return None
    return order_stop(session, attempt_id, Outcome.CANCELLED)


def _lock(session: Session, scope: TenantId | None, job_id: str) -> Job:
    """The job, locked in the order of `store.locks` together with all that its end would change."""
    job = session.get(Job, job_id)
    if job is None or not reaches(session, scope, job.tenant_id):
        raise NotFound("job")
    live = select(Attempt.node_id).where(Attempt.job_id == job_id, col(Attempt.state) != "ended")
    lock_where_it_runs(session, job.tenant_id, lambda: session.exec(live).all())
    return session.exec(
        select(Job).where(Job.id == job_id).with_for_update().execution_options(populate_existing=True)
    ).one()


def _move(session: Session, job: Job, event: JobEvent) -> None:
    job.state = next_job_state(JobState(job.state), event)
    session.flush()
    record(session, f"job_{job.state}", tenant_id=job.tenant_id, job_id=job.id, text=JobState(job.state).sentence)
