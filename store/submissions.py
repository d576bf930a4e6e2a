"""New jobs: checked against the catalogue and the quotas, and queued. Many orders go into one transaction.

What the orders need is read once for all of them, and what they become is written in a statement for each table. An
order that is refused leaves no trace, and does not touch the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import insert
from sqlmodel import Session

from domain.admission import CatalogueImage, Wish, check
from domain.errors import BatchRefused, CorralError, Invalid, TenantSuspended
from domain.ids import Instant, TenantId
from domain.levels import Level
from domain.rights import NOBODY, Author
from domain.states import JobState
from store.admission import TenantFacts, admitted_images, devices, held_inputs, lock_tenants
from store.base import table_of
from store.clock import now_us
from store.events import Happened, record_all
from store.ids import new_id
from store.quotas import add_queued
from store.secrets import kept_of, secrets_of
from store.tables import Job, JobInput

_ADD_JOBS, _ADD_INPUTS = insert(table_of(Job)), insert(table_of(JobInput))


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as it was asked for. None stands for the tenant's default."""

    name: str | None
    spec: Mapping[str, Any]
    """As sent, normalised."""
    image: str
    least_level: Level | None
    priority: int
    time_limit_us: int | None
    grace_us: int
    max_unreachable_us: int | None
    gpus: int
    models: Sequence[str]
    gpu_memory_min_bytes: int
    cpus_milli: int
    memory_bytes: int
    shm_bytes: int
    scratch_bytes: int
    output_bytes: int
    retry_limit: int
    retry_on: Sequence[str]
    inputs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Order:
    """Jobs of one tenant that are queued all together, or not at all."""

    tenant_id: TenantId
    jobs: Sequence[Submission]
    author: Author = NOBODY


@dataclass(frozen=True, slots=True)
class Queued:
    """A job that was queued now."""

    job_id: str
    tenant_id: TenantId
    submitted_us: Instant


@dataclass(slots=True)
class _Written:
    """Rows to be written, of all orders together."""

    jobs: list[Mapping[str, Any]] = field(default_factory=list)
    inputs: list[Mapping[str, Any]] = field(default_factory=list)
    wishes: list[tuple[str, TenantId, Submission]] = field(default_factory=list)


def submit(session: Session, orders: Sequence[Order]) -> list[Sequence[Queued] | CorralError]:
    """Queue what may be queued; of each order, its jobs or why it was refused.

    The refusals: `TenantSuspended` if the tenant or one above it is; `Invalid` if the image or an input is not there,
    or the image cannot be run at the level asked for; `BeyondQuota` if a quota in the tree excludes such a job, now and
    later; `QuotaExceeded` if a queue is full; `BeyondKey` if the author's key is kept to other
    images or levels; `BatchRefused` with the places of these in an order of several.
    """
    tenants, room = lock_tenants(session, {order.tenant_id for order in orders})
    images = admitted_images(session, {job.image for order in orders for job in order.jobs})
    held = held_inputs(
        session, {(order.tenant_id, each) for order in orders for job in order.jobs for each in job.inputs}
    ) | kept_of(
        session, {(order.tenant_id, each) for order in orders for job in order.jobs for each in secrets_of(job.spec)}
    )
    now = now_us(session)
    written = _Written()
    outcomes: list[Sequence[Queued] | CorralError] = []
    for order in orders:
        try:
            tenant = _active(tenants, order.tenant_id)
            admitted = _all_admitted(order, tenant, images, held)
            room.take(tenant.path, len(order.jobs))
        except CorralError as refusal:
            outcomes.append(refusal)
        else:
            outcomes.append([_place(written, order, *each, now) for each in admitted])
    if written.jobs:
        add_queued(session, room.taken)
        _write(session, written, now)
    return outcomes


def _active(tenants: Mapping[str, TenantFacts], tenant_id: TenantId) -> TenantFacts:
    tenant = tenants.get(tenant_id)
    if tenant is None:
        raise Invalid("there is no such tenant")
    if tenant.is_suspended:
        raise TenantSuspended
    return tenant


_Admitted = tuple[Submission, CatalogueImage, Wish]


def _all_admitted(
    order: Order, tenant: TenantFacts, images: Mapping[str, CatalogueImage], held: set[tuple[str, str]]
) -> list[_Admitted]:
    """Every job of the order.

    Raises:
        CorralError: why its one job is refused, or, of several, which are and why.
    """
    admitted: list[_Admitted] = []
    refused: dict[int, CorralError] = {}
    for place, job in enumerate(order.jobs):
        try:
            admitted.append(_admitted(job, order, tenant, images, held))
        except CorralError as refusal:
            refused[place] = refusal
    if refused and len(order.jobs) == 1:
        raise refused[0]
    if refused:
        raise BatchRefused(refused)
    return admitted


def _admitted(
    job: Submission,
    order: Order,
    tenant: TenantFacts,
    images: Mapping[str, CatalogueImage],
    held: set[tuple[str, str]],
) -> _Admitted:
    image = images.get(job.image)
    if image is None or not image.is_for(tenant.path):
        raise Invalid(f"there is no image {job.image} in the catalogue", "see GET /v1/images")
    least = job.least_level or tenant.default_isolation
    time_limit_us = job.time_limit_us or tenant.default_time_limit_us
    wish = Wish(least, time_limit_us, job.priority, job.gpus, job.models)
    order.author.check(image.name, least)
    check(wish, image, tenant.rules)
    for sha256 in job.inputs:
        if (order.tenant_id, sha256) not in held:
            raise Invalid(f"there is no input {sha256}", "store it first with POST /v1/inputs")
    for name in secrets_of(job.spec):
        if (order.tenant_id, name) not in held:
            raise Invalid(f"there is no secret {name}", "set it first: corral secrets set NAME")
    return job, image, wish


def _place(written: _Written, order: Order, job: Submission, image: CatalogueImage, wish: Wish, now: Instant) -> Queued:
    job_id = new_id("job")
    written.jobs.append(_row(job_id, order, job, image, wish, now))
    written.inputs.extend({"job_id": job_id, "position": n, "sha256": each} for n, each in enumerate(job.inputs))
    written.wishes.append((job_id, order.tenant_id, job))
    return Queued(job_id, order.tenant_id, now)


def _write(session: Session, written: _Written, now: Instant) -> None:
    session.connection().execute(_ADD_JOBS, written.jobs)
    if written.inputs:
        session.connection().execute(_ADD_INPUTS, written.inputs)
    happened = [
        Happened("submitted", tenant_id=tenant_id, job_id=job_id, text="the job was queued")
        for job_id, tenant_id, _ in written.wishes
    ]
    record_all(session, [*happened, *_device_warnings(session, written.wishes)], now)


def _device_warnings(session: Session, wishes: Sequence[tuple[str, TenantId, Submission]]) -> list[Happened]:
    """Not a refusal: a node that has such devices may join."""
    with_gpus = [each for each in wishes if each[2].gpus]
    if not with_gpus:
        return []
    known = devices(session)
    text = "no node known now has such devices; it waits until one joins"
    return [
        Happened("no_device_known", tenant_id=tenant_id, job_id=job_id, text=text)
        for job_id, tenant_id, job in with_gpus
        if known.count(job.models, job.gpu_memory_min_bytes) < job.gpus
    ]


def _row(
    job_id: str, order: Order, job: Submission, image: CatalogueImage, wish: Wish, now: Instant
) -> Mapping[str, Any]:
    return {
        "id": job_id,
        "tenant_id": order.tenant_id,
        "key_id": order.author.key_id,
        "member_id": order.author.member_id,
        "name": job.name,
        "state": JobState.QUEUED.value,
        "spec": job.spec,
        "priority": job.priority,
        "image_name": image.name,
        "image_kind": image.kind.value,
        "image_reference": image.reference,
        "min_cuda": image.min_cuda,
        "least_level": wish.least_level.value,
        "time_limit_us": wish.time_limit_us,
        "grace_us": job.grace_us,
        "max_unreachable_us": job.max_unreachable_us,
        "gpus": job.gpus,
        "models": list(job.models),
        "gpu_memory_min_bytes": job.gpu_memory_min_bytes,
        "cpus_milli": job.cpus_milli,
        "memory_bytes": job.memory_bytes,
        "shm_bytes": job.shm_bytes,
        "scratch_bytes": job.scratch_bytes,
        "output_bytes": job.output_bytes,
        "retry_limit": job.retry_limit,
        "retry_on": list(job.retry_on),
        "fence": 0,
        "tries_by_tenant": 0,
        "tries_by_platform": 0,
        "not_before_us": 0,
        "avoid_nodes": [],
        "cancel_requested": False,
        "submitted_us": now,
    }
