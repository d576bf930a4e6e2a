"""The life of an attempt: assigned, claimed, started, told to stop, ended. Each step is a compare-and-set.

A step that finds the row moved reads it again and tries the event on the new state; a stale fence is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col, select

from domain.errors import NotFound, QuotaExceeded, StaleFence
from domain.scheduling.snapshot import WHOLE_GPU, Placement
from domain.states import AttemptEvent, AttemptState, JobState, next_attempt_state
from store.clock import now_us
from store.events import record
from store.ids import new_id
from store.ledger import price_of
from store.locks import lock_nodes, lock_quotas
from store.quotas import queued_to_running, take_gpus
from store.tables import Allocation, Attempt, Gpu, Job, JobInput, Node


class PlacementRefused(Exception):
    """What the plan saw is no longer so; the job waits for the next pass."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """An attempt that a node may claim now."""

    attempt_id: str
    fence: int
    node_id: str


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


def lock_for(session: Session, placements: Sequence[Placement]) -> None:
    """Hold the nodes and quotas that these placements will change, before the first of them."""
    lock_nodes(session, (placement.node_id for placement in placements))
    lock_quotas(session, (placement.tenant_id for placement in placements))


def assign(session: Session, placement: Placement) -> Assigned:
    """Give the job its devices, under a new fence; every condition of the placement is checked again.

    Call `lock_for` first, and this inside a savepoint.

    Raises:
        PlacementRefused: the job, a device, the node or the quota is no longer as planned.
    """
    moved = session.execute(
        update(Job)
        .where(
            col(Job.id) == placement.job_id,
            col(Job.state) == JobState.QUEUED,
            col(Job.cancel_requested).is_(False),
        )
        .values(state=JobState.RUNNING, fence=Job.fence + 1, reason_code=None, reason_text=None, reason_numbers=None)
    )
    if moved.rowcount != 1:  # type: ignore[attr-defined]
        raise PlacementRefused("the job is no longer queued")
    job = session.get_one(Job, placement.job_id, populate_existing=True)
    _take_room(session, job, placement)
    try:
        queued_to_running(session, job.tenant_id)
        take_gpus(session, job.tenant_id, placement.models)
    except QuotaExceeded as refusal:
        raise PlacementRefused(str(refusal)) from refusal
    attempt = _new_attempt(session, job, placement)
    for gpu_id in sorted(placement.gpu_ids):
        _take_device(session, attempt, gpu_id)
    record(
        session,
        "assigned",
        tenant_id=job.tenant_id,
        job_id=job.id,
        attempt_id=attempt.id,
        node_id=attempt.node_id,
        fence=attempt.fence,
        text=f"attempt {attempt.number} was assigned",
        data={"gpus": len(placement.gpu_ids), "level": placement.level},
    )
    return Assigned(attempt.id, attempt.fence, attempt.node_id)


def claim(session: Session, node_id: str, attempt_id: str, fence: int) -> Claimed:
    """The node takes the attempt; claiming it once more under the same fence gives the same answer.

    Raises:
        StaleFence: the attempt is over, or was never this fence's.
    """
    attempt = _of_node(session, node_id, attempt_id, fence)
    if attempt.state == AttemptState.ASSIGNED:
        if _move(session, attempt, AttemptEvent.CLAIM, claimed_us=now_us(session)):
            _tell(session, attempt, "claimed", "its node took it and prepares it")
        attempt = _of_node(session, node_id, attempt_id, fence)
    if attempt.state not in (AttemptState.PREPARING, AttemptState.RUNNING):
        raise StaleFence(attempt_id, fence)
    job = session.get_one(Job, attempt.job_id)
    devices = session.exec(
        select(Gpu)
        .join(Allocation, col(Allocation.gpu_id) == Gpu.id)
        .where(Allocation.attempt_id == attempt_id)
        .order_by(col(Gpu.uuid))
    ).all()
    inputs = session.exec(
        select(JobInput.sha256).where(JobInput.job_id == job.id).order_by(col(JobInput.position))
    ).all()
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
    """The attempt, locked, if it is this node's and the fence is its own and the job's newest."""
    attempt = session.exec(
        select(Attempt)
        .where(Attempt.id == attempt_id, Attempt.node_id == node_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).first()
    if attempt is None:
        raise NotFound("attempt")
    newest = session.exec(select(Job.fence).where(Job.id == attempt.job_id)).one()
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


def _take_room(session: Session, job: Job, placement: Placement) -> None:
    scratch = job.scratch_bytes + job.output_bytes
    taken = session.execute(
        update(Node)
        .where(
            col(Node.id) == placement.node_id,
            col(Node.state) == "ready",
            col(Node.is_reachable).is_(True),
            Node.cpus_milli_used + job.cpus_milli <= col(Node.cpus_milli),
            Node.memory_bytes_used + job.memory_bytes <= col(Node.memory_bytes),
            Node.scratch_bytes_used + scratch <= col(Node.scratch_bytes),
        )
        .values(
            cpus_milli_used=Node.cpus_milli_used + job.cpus_milli,
            memory_bytes_used=Node.memory_bytes_used + job.memory_bytes,
            scratch_bytes_used=Node.scratch_bytes_used + scratch,
        )
    )
    if taken.rowcount != 1:  # type: ignore[attr-defined]
        raise PlacementRefused("the node takes no jobs, or has no room left")
    levels = session.exec(select(Node.levels).where(Node.id == placement.node_id)).one()
    if placement.level not in levels:
        raise PlacementRefused("the node no longer offers that level")


def _new_attempt(session: Session, job: Job, placement: Placement) -> Attempt:
    earlier = session.exec(select(Attempt.number).where(Attempt.job_id == job.id).order_by(col(Attempt.number).desc()))
    attempt = Attempt(
        id=new_id("att"),
        job_id=job.id,
        tenant_id=job.tenant_id,
        node_id=placement.node_id,
        number=(earlier.first() or 0) + 1,
        fence=job.fence,
        level=placement.level,
        assigned_us=now_us(session),
        cpus_milli=job.cpus_milli,
        memory_bytes=job.memory_bytes,
        scratch_bytes=job.scratch_bytes + job.output_bytes,
    )
    session.add(attempt)
    session.flush()
    return attempt


def _take_device(session: Session, attempt: Attempt, gpu_id: str) -> None:
    taken = session.execute(
        update(Gpu)
        .where(
            col(Gpu.id) == gpu_id,
            col(Gpu.node_id) == attempt.node_id,
            col(Gpu.state) == "clean",
            col(Gpu.health) == "ok",
            col(Gpu.used_milli) == 0,
        )
        .values(used_milli=WHOLE_GPU, generation=Gpu.generation + 1)
    )
    if taken.rowcount != 1:  # type: ignore[attr-defined]
        raise PlacementRefused("a device is no longer free")
    model = session.exec(select(Gpu.model).where(Gpu.id == gpu_id)).one()
    session.add(
        Allocation(
            id=new_id("all"),
            attempt_id=attempt.id,
            gpu_id=gpu_id,
            tenant_id=attempt.tenant_id,
            model=model,
            share_milli=WHOLE_GPU,
            price_micro_per_gpu_hour=price_of(session, model),
            from_us=attempt.assigned_us,
            posted_until_us=attempt.assigned_us,
        )
    )
    session.flush()
