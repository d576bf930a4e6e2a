"""Reading jobs and what happened to them. Another tenant's job is not found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ScalarSelect
from sqlmodel import Session, col, func, select

from domain.errors import NotFound
from domain.ids import KeyId, TenantId
from store.key_rows import below
from store.paging import Position, after
from store.scopes import reaches
from store.tables import Allocation, Attempt, Event, Gpu, Job, LedgerEntry, Node


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """An attempt, its node's name and its devices."""

    attempt: Attempt
    node_name: str
    devices: Sequence[Gpu]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job with its latest attempt."""

    job: Job
    attempts: int
    latest: AttemptRecord | None


def find(session: Session, scope: TenantId | None, job_id: str) -> Job:
    """The job's row.

    Raises:
        NotFound: there is none, or it is outside the scope.
    """
    job = session.get(Job, job_id)
    if job is None or not reaches(session, scope, job.tenant_id):
        raise NotFound("job")
    return job


def show(session: Session, scope: TenantId | None, job_id: str) -> JobRecord:
    """One job.

    Raises:
        NotFound: there is none, or it is outside the scope.
    """
    return records(session, [find(session, scope, job_id)])[0]


def page(
    session: Session,
    scope: TenantId | None,
    key_id: KeyId | None,
    state: str | None,
    name: str | None,
    array_id: str | None,
    limit: int,
    start: Position | None,
) -> Sequence[JobRecord]:
    """Jobs, newest first; one more than `limit` if there are. With a key: those submitted with it or made from it."""
    query = select(Job)
    if scope is not None:
        query = query.where(Job.tenant_id == scope)
    if key_id is not None:
        query = query.where(col(Job.key_id).in_(below(session, key_id)))
    if state is not None:
        query = query.where(Job.state == state)
    if name is not None:
        query = query.where(Job.name == name)
    if array_id is not None:
        query = query.where(Job.array_id == array_id)
    if start is not None:
        query = query.where(after(start, col(Job.submitted_us), col(Job.id)))
    order = (col(Job.submitted_us).desc(), col(Job.id).desc())
    return records(session, session.exec(query.order_by(*order).limit(limit + 1)).all())


def records(session: Session, jobs: Sequence[Job]) -> list[JobRecord]:
    """The jobs with their latest attempts, in three questions however many they are."""
    ids = [job.id for job in jobs]
    numbers = session.exec(
        select(Attempt.job_id, func.max(Attempt.number)).where(col(Attempt.job_id).in_(ids)).group_by(Attempt.job_id)
    ).all()
    counts = dict(numbers)
    latest = session.exec(
        select(Attempt).where(col(Attempt.job_id).in_(ids), col(Attempt.fence) == _newest_fence())
    ).all()
    found = {record.attempt.job_id: record for record in attempt_records(session, latest)}
    return [JobRecord(job, counts.get(job.id, 0), found.get(job.id)) for job in jobs]


def attempts(
    session: Session, scope: TenantId | None, job_id: str, limit: int, start: Position | None
) -> Sequence[AttemptRecord]:
    """The job's attempts, newest first; one more than `limit` if there are."""
    find(session, scope, job_id)
    query = select(Attempt).where(Attempt.job_id == job_id)
    if start is not None:
        query = query.where(col(Attempt.number) < start.key)
    return attempt_records(session, session.exec(query.order_by(col(Attempt.number).desc()).limit(limit + 1)).all())


def attempt_numbered(session: Session, job_id: str, number: int | None) -> Attempt | None:
    """An attempt of a job that was found already; the latest one if no number is given."""
    query = select(Attempt).where(Attempt.job_id == job_id)
    if number is not None:
        query = query.where(Attempt.number == number)
    return session.exec(query.order_by(col(Attempt.number).desc())).first()


def job_of(session: Session, attempt_id: str) -> str:
    """The job of an attempt that is known to exist."""
    return session.exec(select(Attempt.job_id).where(Attempt.id == attempt_id)).one()


def attempts_from(session: Session, job_id: str, number: int) -> Sequence[Attempt]:
    """The job's attempts from this number on, oldest first."""
    query = select(Attempt).where(Attempt.job_id == job_id, col(Attempt.number) >= number)
    return session.exec(query.order_by(col(Attempt.number))).all()


def attempt_records(session: Session, found: Sequence[Attempt]) -> list[AttemptRecord]:
    """The attempts with their nodes' names and their devices."""
    names = dict(
        session.exec(select(Node.id, Node.name).where(col(Node.id).in_({attempt.node_id for attempt in found}))).all()
    )
    devices = _devices(session, [attempt.id for attempt in found])
    return [AttemptRecord(attempt, names[attempt.node_id], devices.get(attempt.id, ())) for attempt in found]


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """An event, and which of its job's it is, from 1. Its row's id counts everybody's, and is told to nobody."""

    number: int
    event: Event


def events(
    session: Session, scope: TenantId | None, job_id: str, limit: int, start: Position | None
) -> Sequence[NumberedEvent]:
    """What happened to the job, oldest first; one more than `limit` if there are. Nothing is ever put in between."""
    find(session, scope, job_id)
    before = max(0, start.key) if start else 0
    query = select(Event).where(Event.job_id == job_id).order_by(col(Event.id)).offset(before).limit(limit + 1)
    return [NumberedEvent(before + n, event) for n, event in enumerate(session.exec(query), start=1)]


def ledger_entries(
    session: Session, scope: TenantId | None, job_id: str, limit: int, start: Position | None
) -> Sequence[LedgerEntry]:
    """The job's lines in the ledger, in the order of their posting; one more than `limit` if there are."""
    find(session, scope, job_id)
    query = select(LedgerEntry).where(LedgerEntry.job_id == job_id)
    if start is not None:
        query = query.where(col(LedgerEntry.seq) > start.key)
    return session.exec(query.order_by(col(LedgerEntry.seq)).limit(limit + 1)).all()


def _newest_fence() -> ScalarSelect[int]:
    return select(Job.fence).where(col(Job.id) == col(Attempt.job_id)).correlate(Attempt).scalar_subquery()


def _devices(session: Session, attempt_ids: Sequence[str]) -> Mapping[str, list[Gpu]]:
    found: dict[str, list[Gpu]] = {}
    rows = session.exec(
        select(Allocation.attempt_id, Gpu)
        .join(Gpu, col(Gpu.id) == Allocation.gpu_id)
        .where(col(Allocation.attempt_id).in_(attempt_ids))
        .order_by(col(Gpu.uuid))
    )
    for attempt_id, gpu in rows:
        found.setdefault(attempt_id, []).append(gpu)
    return found
