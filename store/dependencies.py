"""Jobs that wait for others, and the counters of arrays: both move in the transaction in which a job is over.

All of it is of one tenant, whose quotas that transaction holds (`store.locks`), as does every submission of a job that
would wait: so an end and a new dependent on it cannot miss each other.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select, update
from sqlmodel import Session

from domain.dependencies import Condition
from domain.endings import Outcome
from domain.ids import TenantId
from domain.scheduling.reasons import waiting_for_jobs
from domain.states import JobState
from store.base import table_of
from store.clock import now_us
from store.events import Happened, record_all
from store.quotas import leave_queue
from store.tables import Job, JobArray, JobDependency

_JOB, _ARRAY, _DEPENDENCY = table_of(Job), table_of(JobArray), table_of(JobDependency)
_WAITING_STATES = (JobState.QUEUED.value, JobState.HELD.value)
DEPENDENCY_FAILED = "dependency_failed"
WAITING = "waiting_for_jobs"
AT_ONCE = 500
"""Rows named in one statement."""

_ARE_NAMED = _JOB.c.id.in_(bindparam("of", expanding=True))
_OPEN = (
    select(_DEPENDENCY.c.job_id, _DEPENDENCY.c.after_id, _DEPENDENCY.c.condition)
    .where(_DEPENDENCY.c.after_id.in_(bindparam("of", expanding=True)), _DEPENDENCY.c.is_open)
    .order_by(_DEPENDENCY.c.job_id)
)
_CLOSE = (
    update(_DEPENDENCY)
    .where(
        _DEPENDENCY.c.job_id == bindparam("of_job"),
        _DEPENDENCY.c.after_id == bindparam("on"),
        _DEPENDENCY.c.is_open,
    )
    .values(is_open=False)
)
_CLOSE_ALL = (
    update(_DEPENDENCY)
    .where(_DEPENDENCY.c.job_id.in_(bindparam("of", expanding=True)), _DEPENDENCY.c.is_open)
    .values(is_open=False)
)
_ONE_LESS = update(_JOB).where(_JOB.c.id == bindparam("of_job")).values(waits_for=_JOB.c.waits_for - bindparam("met"))
_LEFT = select(_JOB.c.id, _JOB.c.waits_for, _JOB.c.state).where(_ARE_NAMED)
_TELL = (
    update(_JOB)
    .where(_JOB.c.id == bindparam("of_job"))
    .values(reason_code=bindparam("code"), reason_text=bindparam("sentence"), reason_numbers=bindparam("numbers"))
)
_STANDING = select(_JOB.c.id, _JOB.c.tenant_id, _JOB.c.array_id, _JOB.c.state).where(_ARE_NAMED)
_TO_CANCEL = _STANDING.where(_JOB.c.state.in_(_WAITING_STATES)).order_by(_JOB.c.id).with_for_update()
"""Locked in the order of their ids, as whoever changes several locks them."""
_CANCEL = (
    update(_JOB)
    .where(_ARE_NAMED, _JOB.c.state.in_(_WAITING_STATES))
    .values(
        state=JobState.CANCELLED.value,
        outcome=Outcome.CANCELLED.value,
        error=bindparam("why"),
        reason_code=bindparam("code"),
        ended_us=bindparam("now"),
        waits_for=0,
    )
)
_COUNT_ENDS = (
    update(_ARRAY)
    .where(_ARRAY.c.id == bindparam("of"))
    .values(
        unfinished=_ARRAY.c.unfinished - bindparam("ended"), unsuccessful=_ARRAY.c.unsuccessful + bindparam("badly")
    )
    .returning(_ARRAY.c.unfinished, _ARRAY.c.unsuccessful)
)


@dataclass(frozen=True, slots=True)
class Over:
    """A job that is over now."""

    job_id: str
    array_id: str | None
    is_success: bool


def settle(session: Session, over: Sequence[Over]) -> None:
    """These jobs have just ended: let go who waited for that, and cancel who waited for another end of theirs.

    What is cancelled so is over too, and so on; nothing waits for itself, since a job names only jobs before it.
    """
    while over:
        ends = {each.job_id: each.is_success for each in over} | _ended_arrays(session, over)
        met, doomed = _judged(session, ends)
        _let_go(session, {job_id: ids for job_id, ids in met.items() if job_id not in doomed})
        over = cancel_waiting(session, doomed, DEPENDENCY_FAILED)


def cancel_waiting(session: Session, why: Mapping[str, str], code: str | None) -> list[Over]:
    """Cancel those of these jobs that are queued or held; `why` is told of each. They are over, and must be settled."""
    over: list[Over] = []
    for text, job_ids in _by_text(why):
        waiting = session.connection().execute(_TO_CANCEL, {"of": job_ids}).all()
        if not waiting:
            continue
        ids, now = [row.id for row in waiting], now_us(session)
        session.connection().execute(_CANCEL, {"of": ids, "why": text or None, "code": code, "now": now})
        session.connection().execute(_CLOSE_ALL, {"of": ids})
        leave_queue(session, waiting[0].tenant_id, len(ids))
        sentence = f"{JobState.CANCELLED.sentence}{': ' + text if text else ''}"
        record_all(
            session,
            [Happened("job_cancelled", tenant_id=row.tenant_id, job_id=row.id, text=sentence) for row in waiting],
            now,
        )
        over += [Over(row.id, row.array_id, is_success=False) for row in waiting]
    return over


def standings(session: Session, ids: Collection[str]) -> dict[str, tuple[TenantId, bool | None]]:
    """Of each job and array by these ids: whose it is, and whether it ended well; None while it has not ended."""
    found: dict[str, tuple[TenantId, bool | None]] = {}
    for chunk in _chunks(sorted(ids)):
        for row in session.connection().execute(_STANDING, {"of": chunk}):
            is_over = JobState(row.state).is_terminal
            found[row.id] = (row.tenant_id, row.state == JobState.SUCCEEDED if is_over else None)
        arrays = select(_ARRAY).where(_ARRAY.c.id.in_(chunk))
        for row in session.connection().execute(arrays):
            found[row.id] = (row.tenant_id, None if row.unfinished else row.unsuccessful == 0)
    return found


def _ended_arrays(session: Session, over: Sequence[Over]) -> dict[str, bool]:
    """Arrays of which these were the last jobs, and whether all of each ended well."""
    ended: dict[str, bool] = {}
    for array_id in sorted({each.array_id for each in over if each.array_id is not None}):
        own = [each for each in over if each.array_id == array_id]
        values = {"of": array_id, "ended": len(own), "badly": sum(not each.is_success for each in own)}
        row = session.connection().execute(_COUNT_ENDS, values).one()
        if row.unfinished == 0:
            ended[array_id] = row.unsuccessful == 0
    return ended


def _judged(session: Session, ends: Mapping[str, bool]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Of the jobs that waited for these: what each of them waited for and got; and who never can start, and why."""
    met: dict[str, list[str]] = {}
    doomed: dict[str, str] = {}
    for chunk in _chunks(sorted(ends)):
        for row in session.connection().execute(_OPEN, {"of": chunk}):
            condition = Condition(row.condition)
            if condition.is_met(ends[row.after_id]):
                met.setdefault(row.job_id, []).append(row.after_id)
            else:
                how = "did not succeed" if condition is Condition.SUCCESS else "did not fail"
                doomed[row.job_id] = f"{row.after_id} {how}"
    return met, doomed


def _let_go(session: Session, met: Mapping[str, list[str]]) -> None:
    """Count off what these jobs waited for; who waits for nothing more is seen by the scheduler."""
    if not met:
        return
    pairs = [{"of_job": job_id, "on": after_id} for job_id, ids in sorted(met.items()) for after_id in ids]
    session.connection().execute(_CLOSE, pairs)
    counts = [{"of_job": job_id, "met": len(ids)} for job_id, ids in sorted(met.items())]
    session.connection().execute(_ONE_LESS, counts)
    for chunk in _chunks(sorted(met)):
        rows = session.connection().execute(_LEFT, {"of": chunk}).all()
        told = [_told(row) for row in rows if row.state == JobState.QUEUED]
        if told:
            session.connection().execute(_TELL, told)


def _told(row: Any) -> dict[str, Any]:
    if row.waits_for == 0:
        return {"of_job": row.id, "code": None, "sentence": None, "numbers": None}
    reason = waiting_for_jobs(row.waits_for)
    return {"of_job": row.id, "code": reason.code, "sentence": reason.text, "numbers": dict(reason.numbers)}


def _by_text(why: Mapping[str, str]) -> Iterable[tuple[str, list[str]]]:
    for text in sorted(set(why.values())):
        yield from ((text, chunk) for chunk in _chunks(sorted(each for each in why if why[each] == text)))


def _chunks(ids: Sequence[str]) -> Iterable[list[str]]:
    return (list(ids[start : start + AT_ONCE]) for start in range(0, len(ids), AT_ONCE))
