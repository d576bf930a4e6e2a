"""A placement becomes an attempt: every condition is checked again by the statement that takes what it needs.

Statements are plain ones, made once: a pass that starts a job is on the way of every tenant who waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, insert, select, update
from sqlmodel import Session

from domain import budget
from domain.errors import QuotaExceeded
from domain.money import dearest_micro
from domain.scheduling.snapshot import WHOLE_GPU, Placement
from domain.states import AttemptState, JobState
from store.arrays import enter_array
from store.base import table_of
from store.blocked_digests import is_blocked
from store.clock import now_us
from store.events import record
from store.holds import PurseShort, hold_most
from store.ids import new_id
from store.locks import lock_nodes, lock_quotas, tree
from store.prices import PriceInForce, price_of, rates_of
from store.purses import payers
from store.quotas import queued_to_running, take_gpus
from store.tables import Allocation, Attempt, Gpu, Job, Node

_JOB, _NODE, _GPU = table_of(Job), table_of(Node), table_of(Gpu)
_START = (
    update(_JOB)
    .where(_JOB.c.id == bindparam("of"), _JOB.c.state == JobState.QUEUED.value, _JOB.c.cancel_requested.is_(False))
    .where(_JOB.c.waits_for == 0, ~is_blocked(_JOB.c.image_reference))
    .values(
        state=JobState.RUNNING.value, fence=_JOB.c.fence + 1, reason_code=None, reason_text=None, reason_numbers=None
    )
)
_WANTED_COLUMNS = (
    "id", "tenant_id", "key_id", "priority", "fence", "cpus_milli", "memory_bytes", "scratch_bytes", "output_bytes",
    "time_limit_us", "grace_us", "array_id",
)  # fmt: skip
_WANTED = select(*(_JOB.c[name] for name in _WANTED_COLUMNS)).where(_JOB.c.id == bindparam("of"))
_ROOM = (
    update(_NODE)
    .where(
        _NODE.c.id == bindparam("of"),
        _NODE.c.state == "ready",
        _NODE.c.is_reachable.is_(True),
        _NODE.c.cpus_milli_used + bindparam("cpus") <= _NODE.c.cpus_milli,
        _NODE.c.memory_bytes_used + bindparam("memory") <= _NODE.c.memory_bytes,
        _NODE.c.scratch_bytes_used + bindparam("scratch") <= _NODE.c.scratch_bytes,
    )
    .values(
        cpus_milli_used=_NODE.c.cpus_milli_used + bindparam("cpus"),
        memory_bytes_used=_NODE.c.memory_bytes_used + bindparam("memory"),
        scratch_bytes_used=_NODE.c.scratch_bytes_used + bindparam("scratch"),
    )
)
_LEVELS = select(_NODE.c.levels).where(_NODE.c.id == bindparam("of"))
_DEVICE = (
    update(_GPU)
    .where(
        _GPU.c.id == bindparam("of"),
        _GPU.c.node_id == bindparam("on"),
        _GPU.c.model == bindparam("which"),
        _GPU.c.state == "clean",
        _GPU.c.health == "ok",
        _GPU.c.used_milli == 0,
    )
    .values(used_milli=WHOLE_GPU, generation=_GPU.c.generation + 1)
)
_ATTEMPT = insert(table_of(Attempt))
_ALLOCATION = insert(table_of(Allocation))


class PlacementRefused(Exception):
    """What the plan saw is no longer so; the job waits for the next pass."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """An attempt that a node may claim now."""

    attempt_id: str
    fence: int
    node_id: str


def lock_for(session: Session, placements: Sequence[Placement]) -> None:
    """Hold the nodes and quotas that these placements will change, before the first of them."""
    lock_nodes(session, (placement.node_id for placement in placements))
    lock_quotas(session, (placement.tenant_id for placement in placements))


def assign(session: Session, placement: Placement) -> Assigned:
    """Give the job its devices, under a new fence; every condition of the placement is checked again.

    Call `lock_for` first, and this inside a savepoint.

    Raises:
        PlacementRefused: the job, a device, the node, the quota or a purse is no longer as planned.
    """
    if not _changes(session, _START, of=placement.job_id):
        raise PlacementRefused("the job is no longer queued, or its image is blocked")
    job = session.connection().execute(_WANTED, {"of": placement.job_id}).one()
    now = now_us(session)
    if not enter_array(session, job.array_id):
        raise PlacementRefused("as many jobs of its array run as may")
    _take_room(session, job, placement)
    path = tree(session, job.tenant_id)
    try:
        queued_to_running(session, path, now)
        take_gpus(session, path, placement.models, now)
    except QuotaExceeded as refusal:
        raise PlacementRefused(str(refusal)) from refusal
    assigned = Assigned(new_id("att"), job.fence, placement.node_id)
    session.connection().execute(_ATTEMPT, _attempt(job, placement, assigned, now))
    prices = {model: price_of(session, model, job.priority, now) for model in set(placement.models)}
    for gpu_id, model in sorted(zip(placement.gpu_ids, placement.models, strict=True)):
        if not _changes(session, _DEVICE, of=gpu_id, on=placement.node_id, which=model):
            raise PlacementRefused("a device is no longer free")
        session.connection().execute(_ALLOCATION, _allocation(job, assigned, gpu_id, model, prices[model], now))
    if placement.models:
        _hold(session, job, assigned, [prices[model] for model in placement.models], now)
    record(
        session,
        "assigned",
        tenant_id=job.tenant_id,
        job_id=job.id,
        attempt_id=assigned.attempt_id,
        node_id=assigned.node_id,
        fence=assigned.fence,
        text=f"attempt {assigned.fence} was assigned",
        data={"gpus": len(placement.gpu_ids), "level": placement.level.value},
    )
    return assigned


def _changes(session: Session, statement: Any, **values: object) -> bool:
    """Whether the conditional UPDATE found its row as it should be."""
    return bool(session.connection().execute(statement, values).rowcount == 1)


def _take_room(session: Session, job: Any, placement: Placement) -> None:
    scratch = job.scratch_bytes + job.output_bytes
    if not _changes(
        session, _ROOM, of=placement.node_id, cpus=job.cpus_milli, memory=job.memory_bytes, scratch=scratch
    ):
        raise PlacementRefused("the node takes no jobs, or has no room left")
    levels = session.connection().execute(_LEVELS, {"of": placement.node_id}).scalar_one()
    if placement.level not in levels:
        raise PlacementRefused("the node no longer offers that level")


def _hold(session: Session, job: Any, assigned: Assigned, prices: Sequence[PriceInForce], now: int) -> None:
    dearest = [dearest_micro(price.micro_per_gpu_hour, rates_of(price.rates)) for price in prices]
    amounts = budget.most(dearest, now, budget.longest_us(job.time_limit_us, job.grace_us))
    try:
        hold_most(session, payers(session, job.tenant_id, job.key_id), assigned.attempt_id, amounts)
    except PurseShort as short:
        raise PlacementRefused(str(short)) from short


def _attempt(job: Any, placement: Placement, assigned: Assigned, now: int) -> Mapping[str, object]:
    return {
        "id": assigned.attempt_id,
        "job_id": job.id,
        "tenant_id": job.tenant_id,
        "node_id": placement.node_id,
        "number": job.fence,  # one assignment, one attempt, one fence
        "fence": job.fence,
        "state": AttemptState.ASSIGNED.value,
        "level": placement.level.value,
        "assigned_us": now,
        "cpus_milli": job.cpus_milli,
        "memory_bytes": job.memory_bytes,
        "scratch_bytes": job.scratch_bytes + job.output_bytes,
        "skipped": [],
        "log_bytes": 0,
    }


def _allocation(
    job: Any, assigned: Assigned, gpu_id: str, model: str, price: PriceInForce, now: int
) -> Mapping[str, object]:
    return {
        "id": new_id("all"),
        "attempt_id": assigned.attempt_id,
        "gpu_id": gpu_id,
        "tenant_id": job.tenant_id,
        "model": model,
        "share_milli": WHOLE_GPU,
        "price_micro_per_gpu_hour": price.micro_per_gpu_hour,
        "rates": dict(price.rates),
        "from_us": now,
        "posted_until_us": now,
    }
