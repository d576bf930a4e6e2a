"""A whole array is cancelled in one transaction."""

from sqlalchemy import bindparam, select
from sqlmodel import Session

from domain.ids import KeyId, TenantId
from domain.states import JobState
from store.arrays import find
from store.base import table_of
from store.dependencies import cancel_waiting, settle
from store.locks import lock_where_it_runs
from store.requests import Done, cancel
from store.tables import Attempt, Job

_JOB, _ATTEMPT = table_of(Job), table_of(Attempt)
_OF_STATE = select(_JOB.c.id).where(_JOB.c.array_id == bindparam("of"))
_WAITING = _OF_STATE.where(_JOB.c.state.in_((JobState.QUEUED.value, JobState.HELD.value))).order_by(_JOB.c.id)
_RUNNING = _OF_STATE.where(_JOB.c.state == JobState.RUNNING.value).order_by(_JOB.c.id)
_NODES = (
    select(_ATTEMPT.c.node_id)
    .join(_JOB, _JOB.c.id == _ATTEMPT.c.job_id)
    .where(_JOB.c.array_id == bindparam("of"), _ATTEMPT.c.state != "ended")
)


def cancel_array(session: Session, scope: TenantId | None, key_id: KeyId | None, array_id: str) -> list[Done]:
    """End every job of it that is not over; those that run are told to stop. What is to be told, of each of these.

    Raises:
        NotFound: there is no such array, or it is outside the scope.
    """
    array = find(session, scope, key_id, array_id)
    connection = session.connection()
    lock_where_it_runs(session, array.tenant_id, lambda: connection.scalars(_NODES, {"of": array_id}).all())
    waiting = connection.scalars(_WAITING, {"of": array_id}).all()
    settle(session, cancel_waiting(session, dict.fromkeys(waiting, ""), None))
    return [cancel(session, scope, job_id) for job_id in connection.scalars(_RUNNING, {"of": array_id}).all()]
