"""The life of an attempt: assigned, claimed, started, told to stop, ended. Each step is a compare-and-set.

A step that finds the row moved reads it again and tries the event on the new state; a stale fence is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, update
from sqlmodel import Session, col, select

from domain.errors import NotFound, StaleFence
from domain.states import AttemptEvent, AttemptState, next_attempt_state
from store.base import table_of
from store.blocked_digests import check_not_blocked
from store.clock import now_us
from store.events import record
from store.tables import Allocation, Attempt, Gpu, Job, JobInput

CLAIMED_STATES = (AttemptState.PREPARING, AttemptState.RUNNING)
_ATTEMPT, _JOB, _INPUT = table_of(Attempt), table_of(Job), table_of(JobInput)
_CLAIM = (
    update(_ATTEMPT)
    .where(
        _ATTEMPT.c.id == bindparam("of"),
        _ATTEMPT.c.node_id == bindparam("on"),
        _ATTEMPT.c.fence == bindparam("under"),
        _ATTEMPT.c.state == AttemptState.ASSIGNED.value,
    )
    .values(state=next_attempt_state(AttemptState.ASSIGNED, AttemptEvent.CLAIM).value, claimed_us=bindparam("now"))
)
_INPUTS = select(_INPUT.c.sha256).where(_INPUT.c.job_id == bindparam("of")).order_by(_INPUT.c.position)


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a node needs to run an attempt."""

    job: Job
    attempt: Attempt
    devices: Sequence[Gpu]
    inputs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an attempt stands after a report."""

    attempt_id: str
    state: AttemptState
    stop_reason: str | None


@dataclass(frozen=True, slots=True)
class StopHint:
    """A node that should hear of a stop."""

    node_id: str
    attempt_id: str
    fence: int


def claim(session: Session, node_id: str, attempt_id: str, fence: int) -> Claimed:
    """The node takes the attempt; claiming it once more under the same fence gives the same answer.

    Raises:
        NotFound: it is not an attempt of this node.
        StaleFence: the attempt is over, or was never this fence's.
        ImageBlocked: its image was blocked since it was assigned.
    """
    values = {"of": attempt_id, "on": node_id, "under": fence, "now": now_us(session)}
    is_taken = session.connection().execute(_CLAIM, values).rowcount == 1
    attempt = session.get(Attempt, attempt_id, populate_existing=True)
    if attempt is None or attempt.node_id != node_id:
        raise NotFound("attempt")
    job = session.get_one(Job, attempt.job_id, populate_existing=True)
    if fence != attempt.fence or fence != job.fence or attempt.state not in CLAIMED_STATES:
        raise StaleFence(attempt_id, fence)
    if is_taken:
        check_not_blocked(session, job.image_reference)
        _tell(session, attempt, "claimed", "its node took it and prepares it")
    devices = session.exec(
        select(Gpu)
        .join(Allocation, col(Allocation.gpu_id) == Gpu.id)
        .where(Allocation.attempt_id == attempt_id)
        .order_by(col(Gpu.uuid))
    ).all()
    inputs = session.connection().execute(_INPUTS, {"of": job.id}).scalars().all()
    return Claimed(job, attempt, devices, inputs)


def started(
    session: Session, node_id: str, attempt_id: str, fence: int, prepare_us: int, isolation: Mapping[str, Any]
) -> Standing:
    """The gate was opened, `prepare_us` after the claim by the node's clock. Told twice, it changes nothing."""
    attempt = _of_node(session, node_id, attempt_id, fence)
    if attempt.state == AttemptState.PREPARING:
        started_us = (attempt.claimed_us or attempt.assigned_us) + prepare_us
        if _move(
            session,
            attempt,
            AttemptEvent.START,
            started_us=started_us,
            prepare_us=prepare_us,
            isolation=dict(isolation),
        ):
            session.execute(
                update(Job)
                .where(col(Job.id) == attempt.job_id, col(Job.started_us).is_(None))
                .values(started_us=started_us)
            )
            _tell(session, attempt, "started", f"it runs at level {attempt.level}")
    elif attempt.state == AttemptState.STOPPING and attempt.isolation is None:
        # told to stop before the news of its start came through
        attempt.isolation, attempt.prepare_us = dict(isolation), prepare_us
        attempt.started_us = (attempt.claimed_us or attempt.assigned_us) + prepare_us
    elif attempt.state == AttemptState.ENDED:
        raise StaleFence(attempt_id, fence)
    return standing(session, attempt_id)


def note_pull(session: Session, attempt_id: str, pull: Mapping[str, int]) -> None:
    """How far the pull of its image has come: for its page, and no event."""
    session.execute(
        update(Attempt)
        .where(col(Attempt.id) == attempt_id, col(Attempt.state) == AttemptState.PREPARING)
        .values(pull=dict(pull))
        .execution_options(synchronize_session=False)
    )


def order_stop(session: Session, attempt_id: str, reason: str) -> StopHint | None:
    """Tell a claimed attempt to stop; the first reason counts. None if it is not claimed yet, or over."""
    while True:
        attempt = session.get_one(Attempt, attempt_id, populate_existing=True)
        if attempt.state in (AttemptState.ASSIGNED, AttemptState.ENDED):
            return None
        if attempt.state == AttemptState.STOPPING or _move(
            session, attempt, AttemptEvent.STOP, stop_reason=reason, stop_ordered_us=now_us(session)
        ):
            if attempt.state != AttemptState.STOPPING:
                _tell(session, attempt, "stop_ordered", f"it was told to stop: {reason}")
            return StopHint(attempt.node_id, attempt.id, attempt.fence)


def standing(session: Session, attempt_id: str) -> Standing:
    """Where the attempt stands now."""
    attempt = session.get_one(Attempt, attempt_id, populate_existing=True)
    return Standing(attempt.id, AttemptState(attempt.state), attempt.stop_reason)


def _of_node(session: Session, node_id: str, attempt_id: str, fence: int) -> Attempt:
    """The attempt, locked after its job, if it is this node's and the fence is its own and the job's newest."""
    is_it = (col(Attempt.id) == attempt_id) & (col(Attempt.node_id) == node_id)
    job_id = session.exec(select(Attempt.job_id).where(is_it)).first()
    if job_id is None:
        raise NotFound("attempt")
    newest = session.exec(select(Job.fence).where(Job.id == job_id).with_for_update()).one()
    locked = select(Attempt).where(is_it).with_for_update().execution_options(populate_existing=True)
    attempt = session.exec(locked).one()
    if fence != attempt.fence or fence != newest:
        raise StaleFence(attempt_id, fence)
    return attempt


def _move(session: Session, attempt: Attempt, event: AttemptEvent, **values: Any) -> bool:
    """Whether the attempt was still in the state that was read, and so moved on."""
    moved = session.execute(
        update(Attempt)
        .where(col(Attempt.id) == attempt.id, col(Attempt.state) == attempt.state, col(Attempt.fence) == attempt.fence)
        .values(state=next_attempt_state(AttemptState(attempt.state), event), **values)
        .execution_options(synchronize_session=False)
    )
    return bool(moved.rowcount == 1)  # type: ignore[attr-defined]


def _tell(session: Session, attempt: Attempt, what: str, text: str) -> None:
    record(
        session,
        what,
        tenant_id=attempt.tenant_id,
        job_id=attempt.job_id,
        attempt_id=attempt.id,
        node_id=attempt.node_id,
        fence=attempt.fence,
        text=text,
    )
