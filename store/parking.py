"""Jobs that a spent purse keeps from running: held while they wait, stopped and held where they are preemptible, and
let go again when there is more."""

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import bindparam, select, update
from sqlmodel import Session

from domain import budget
from domain.endings import Outcome
from domain.ids import JobId
from domain.purse import TOTAL, Purse, Unit
from domain.purse_words import EXHAUSTED
from domain.scheduling import purse_reasons
from domain.scheduling.snapshot import Reason
from domain.states import AttemptState, JobEvent, JobState, next_job_state
from store import audit
from store.accruals import accruals
from store.attempts import StopHint, order_stop
from store.base import table_of
from store.clock import now_us
from store.events import record
from store.purses import as_purse, payers
from store.tables import Attempt, Job
from store.tables import Purse as PurseRow

_JOB, _ATTEMPT, _PURSE = table_of(Job), table_of(Attempt), table_of(PurseRow)
_HOLD = (
    update(_JOB)
    .where(_JOB.c.id == bindparam("of"), _JOB.c.state == JobState.QUEUED.value)
    .values(
        state=next_job_state(JobState.QUEUED, JobEvent.HOLD).value,
        reason_code=bindparam("code"),
        reason_text=bindparam("sentence"),
        reason_numbers=bindparam("numbers"),
    )
)
_IS_PARKED = (_JOB.c.state == JobState.HELD.value) & _JOB.c.reason_code.in_(EXHAUSTED)
_PARKED = select(_JOB.c.id, _JOB.c.tenant_id, _JOB.c.key_id).where(_IS_PARKED).order_by(_JOB.c.id)
_LET_GO = (
    update(_JOB)
    .where(_JOB.c.id == bindparam("of"), _IS_PARKED)
    .values(
        state=next_job_state(JobState.HELD, JobEvent.RELEASE).value,
        reason_code=None,
        reason_text=None,
        reason_numbers=None,
    )
)
_SPENDABLE = select(_PURSE).where(
    _PURSE.c.unit != Unit.GPUS_MILLI.value, _PURSE.c.period.in_(bindparam("periods", expanding=True))
)
_TENANT_OF_JOB = select(_JOB.c.tenant_id).where(_JOB.c.id == bindparam("of"))
_TENANT_OF_ATTEMPT = select(_ATTEMPT.c.tenant_id).where(_ATTEMPT.c.id == bindparam("of"))
_SPECS = select(_ATTEMPT.c.id, _JOB.c.spec).join(_JOB, _JOB.c.id == _ATTEMPT.c.job_id)


def hold(session: Session, reasons: Mapping[JobId, Reason]) -> None:
    """Hold those of these jobs that wait for a spent purse, if they are still queued."""
    for job_id, reason in sorted(reasons.items()):
        if reason.code not in EXHAUSTED:
            continue
        values = {"of": job_id, "code": reason.code, "sentence": reason.text, "numbers": dict(reason.numbers)}
        if session.connection().execute(_HOLD, values).rowcount == 1:
            _tell(session, "job_held", job_id, reason.text, reason.code)


def payable(session: Session) -> list[JobId]:
    """The jobs that a spent purse held, and none keeps any more."""
    held = session.connection().execute(_PARKED).all()
    purses = _spendable(session) if held else {}
    spent = {owner for owner, found in purses.items() if any(purse.is_exhausted for purse in found)}
    return [JobId(row.id) for row in held if spent.isdisjoint(payers(session, row.tenant_id, row.key_id).owners)]


def overdrawn(session: Session) -> list[str]:
    """The attempts that may be stopped, and of which a purse that pays for them is spent.

    Time counts as well that ran since it was posted last.
    """
    purses = _spendable(session)
    if not purses:
        return []
    running = [(each, payers(session, each.tenant_id, each.key_id)) for each in accruals(session)]
    stopping: set[str] = set()
    for owner, found in purses.items():
        own = [each for each, paying in running if owner in paying.owners]
        for purse in found:
            drawing = [each for each in own if each.rate_of(purse.unit)]
            if purse.spent + sum(each.amount_of(purse.unit) for each in drawing) >= purse.bound:
                stopping |= {each.attempt_id for each in drawing}
    return _preemptible(session, stopping)


def let_go(session: Session, job_ids: Sequence[JobId]) -> list[JobId]:
    """Put these jobs, which a spent purse held, back into the queue. Those that were moved."""
    moved = []
    for job_id in sorted(job_ids):
        if session.connection().execute(_LET_GO, {"of": job_id}).rowcount == 1:
            _tell(session, "job_queued", job_id, "there is more to spend", "")
            moved.append(job_id)
    return moved


def let_go_payable(session: Session) -> list[JobId]:
    """Put back all jobs that no spent purse keeps any more. Those that were moved."""
    return let_go(session, payable(session))


def stop(session: Session, attempt_id: str) -> StopHint | None:
    """Tell an attempt to stop, because what pays for it is spent. None if it runs no more, or not yet."""
    hint = order_stop(session, attempt_id, Outcome.BUDGET_EXHAUSTED)
    if hint is not None:
        tenant_id = session.connection().execute(_TENANT_OF_ATTEMPT, {"of": attempt_id}).scalar_one()
        audit.append(session, audit.Change(tenant_id, "attempt_stopped_for_its_purse", target=attempt_id))
    return hint


def why_parked(session: Session, tenant_id: str, key_id: str | None) -> Reason:
    """What to tell of a job that was stopped because a purse was spent."""
    purses, paying = _spendable(session), payers(session, tenant_id, key_id)
    steps = {owner: number for number, owner in enumerate(reversed(paying.path))}
    for owner in reversed(paying.owners):
        for purse in purses.get(owner, ()):
            if purse.is_exhausted:
                return purse_reasons.spent(purse, steps.get(owner, 0))
    return Reason(EXHAUSTED[0], "it was stopped because what pays for it was spent; it goes on when there is more", {})


def _tell(session: Session, what: str, job_id: JobId, text: str, code: str) -> None:
    tenant_id = session.connection().execute(_TENANT_OF_JOB, {"of": job_id}).scalar_one()
    record(session, what, tenant_id=tenant_id, job_id=job_id, text=text)
    changes = json.dumps({"reason": code} if code else {})
    audit.append(session, audit.Change(tenant_id, f"{what}_by_its_purse", target=job_id, changes=changes))


def _spendable(session: Session) -> dict[str, list[Purse]]:
    """By owner: what can be spent, in all and in this month."""
    found: dict[str, list[Purse]] = {}
    periods = [TOTAL, budget.month_of(now_us(session))]
    for row in session.connection().execute(_SPENDABLE, {"periods": periods}):
        found.setdefault(row.owner_id, []).append(as_purse(row))
    return found


def _preemptible(session: Session, attempt_ids: set[str]) -> list[str]:
    """Those that may be stopped, and were not told to yet."""
    if not attempt_ids:
        return []
    states = [AttemptState.PREPARING.value, AttemptState.RUNNING.value]
    query = _SPECS.where(_ATTEMPT.c.id.in_(attempt_ids), _ATTEMPT.c.state.in_(states)).order_by(_ATTEMPT.c.id)
    return [row.id for row in session.connection().execute(query) if row.spec.get("preemptible")]
