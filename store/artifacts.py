"""What attempts left, and what a node may still add to an attempt."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, func, select

from domain.errors import Conflict, NotFound, StaleFence, TooLarge
from domain.ids import NodeId, TenantId
from store.clock import now_us
from store.ids import new_id
from store.jobs import find
from store.paging import Position
from store.tables import Artifact, Attempt, Job


@dataclass(frozen=True, slots=True)
class Writable:
    """An attempt to which its node may write."""

    attempt_id: str
    job_id: str
    tenant_id: TenantId
    output_bytes: int
    """Most that the job may leave."""


def writable(session: Session, node_id: NodeId, attempt_id: str, fence: int) -> Writable:
    """The attempt, if this node may add to its log and its artifacts. It reads, and locks nothing.

    Raises:
        NotFound: it is not an attempt of this node.
        StaleFence: it is over, or a newer one has taken its place.
    """
    row = session.exec(
        select(Attempt, Job.fence, Job.output_bytes)
        .join(Job, col(Job.id) == Attempt.job_id)
        .where(Attempt.id == attempt_id, Attempt.node_id == node_id)
    ).first()
    if row is None:
        raise NotFound("attempt")
    attempt, newest, output_bytes = row
    if attempt.fence != fence or newest != fence or attempt.state in ("assigned", "ended"):
        raise StaleFence(attempt_id, fence)
    return Writable(attempt.id, attempt.job_id, TenantId(attempt.tenant_id), output_bytes)


def same_artifact(session: Session, attempt_id: str, name: str, sha256: str) -> Artifact | None:
    """The artifact, if it is stored already.

    Raises:
        Conflict: another file of that name is.
    """
    held = session.exec(select(Artifact).where(Artifact.attempt_id == attempt_id, Artifact.name == name)).first()
    if held is not None and held.sha256 != sha256:
        raise Conflict("the attempt has another artifact of that name already")
    return held


def room_left(session: Session, attempt: Writable, artifacts_max: int) -> int:
    """Bytes that the attempt may still leave.

    Raises:
        TooLarge: it has left as many files as it may.
    """
    row = session.exec(
        select(func.count(), func.coalesce(func.sum(Artifact.size_bytes), 0)).where(
            Artifact.attempt_id == attempt.attempt_id
        )
    ).one()
    if int(row[0]) >= artifacts_max:
        raise TooLarge(f"an attempt leaves at most {artifacts_max} files")
    return max(0, attempt.output_bytes - int(row[1]))


def keep_artifact(session: Session, attempt: Writable, name: str, size_bytes: int, sha256: str) -> Artifact:
    """Note an artifact whose bytes are stored. Noting it again changes nothing."""
    held = same_artifact(session, attempt.attempt_id, name, sha256)
    if held is not None:
        return held
    artifact = Artifact(
        id=new_id("art"),
        tenant_id=attempt.tenant_id,
        job_id=attempt.job_id,
        attempt_id=attempt.attempt_id,
        name=name,
        size_bytes=size_bytes,
        sha256=sha256,
        created_us=now_us(session),
    )
    session.add(artifact)
    session.flush()
    return artifact


def artifacts(
    session: Session, scope: TenantId | None, job_id: str, limit: int, start: Position | None
) -> Sequence[Artifact]:
    """What the job left, in the order of its arrival; one more than `limit` if there are."""
    find(session, scope, job_id)
    query = select(Artifact).where(Artifact.job_id == job_id)
    if start is not None:
        query = query.where(col(Artifact.id) > start.id)
    return session.exec(query.order_by(col(Artifact.id)).limit(limit + 1)).all()


def artifact_named(session: Session, scope: TenantId | None, job_id: str, name: str) -> Artifact:
    """The newest file of that name that the job left.

    Raises:
        NotFound: the job is outside the scope, or left no such file.
    """
    find(session, scope, job_id)
    query = select(Artifact).where(Artifact.job_id == job_id, Artifact.name == name)
    found = session.exec(query.order_by(col(Artifact.id).desc())).first()
    if found is None:
        raise NotFound("artifact")
    return found
