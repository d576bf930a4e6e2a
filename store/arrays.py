"""Arrays: many jobs that were asked for as one."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import bindparam, func, or_, select, update
from sqlmodel import Session

from domain.errors import NotFound
from domain.ids import KeyId, TenantId
from store.base import table_of
from store.key_rows import is_job_of
from store.scopes import reaches
from store.tables import Job, JobArray

_ARRAY, _JOB = table_of(JobArray), table_of(Job)
_ENTER = (
    update(_ARRAY)
    .where(
        _ARRAY.c.id == bindparam("of"),
        or_(_ARRAY.c.most_running.is_(None), _ARRAY.c.running_used < _ARRAY.c.most_running),
    )
    .values(running_used=_ARRAY.c.running_used + 1)
)
_LEAVE = update(_ARRAY).where(_ARRAY.c.id == bindparam("of")).values(running_used=_ARRAY.c.running_used - 1)
_ANY = select(_JOB.c.id).where(_JOB.c.array_id == bindparam("of")).limit(1)
_STATES = (
    select(_JOB.c.state, func.count().label("number")).where(_JOB.c.array_id == bindparam("of")).group_by(_JOB.c.state)
)


@dataclass(frozen=True, slots=True)
class ArrayRecord:
    """An array, and how many of its jobs are in which state."""

    array: JobArray
    states: Mapping[str, int]


def show(session: Session, scope: TenantId | None, key_id: KeyId | None, array_id: str) -> ArrayRecord:
    """One array.

    Raises:
        NotFound: there is none, or it is outside the scope.
    """
    array = find(session, scope, key_id, array_id)
    rows = session.connection().execute(_STATES, {"of": array_id})
    return ArrayRecord(array, {row.state: row.number for row in rows})


def find(session: Session, scope: TenantId | None, key_id: KeyId | None, array_id: str) -> JobArray:
    """The array's row; with a key, if it was submitted with it or with one made from it.

    Raises:
        NotFound: there is none, or it is outside the scope.
    """
    array = session.get(JobArray, array_id)
    if array is None or not reaches(session, scope, array.tenant_id):
        raise NotFound("array")
    if key_id is not None and not is_job_of(
        session, key_id, session.connection().scalars(_ANY, {"of": array_id}).one()
    ):
        raise NotFound("array")
    return array


def enter_array(session: Session, array_id: str | None) -> bool:
    """Count one running job more of the array, if there is one; False if as many run as may."""
    return array_id is None or session.connection().execute(_ENTER, {"of": array_id}).rowcount == 1


def leave_array(session: Session, array_id: str | None) -> None:
    """One job of the array, if there is one, runs no more."""
    if array_id is not None:
        session.connection().execute(_LEAVE, {"of": array_id})
