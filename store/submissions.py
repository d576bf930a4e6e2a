"""New jobs: checked against the catalogue and the quotas, and queued. Many orders go into one transaction.

What the orders need is read once for all of them, and what they become is written in a statement for each table. An
order that is refused leaves no trace, and does not touch the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from domain.admission import CatalogueImage, Wish, check
from domain.errors import BatchRefused, CorralError, Invalid, NotFound, TenantSuspended
from domain.ids import Instant, TenantId
from store.admission import (
    DEVICES,
    Devices,
    QueueRoom,
    TenantFacts,
    admitted_images,
    devices,
    held_inputs,
    images_query,
    locked_tenants,
    tenants_query,
)
from store.dependencies import standings
from store.new_jobs import Admitted, NewJobs
from store.orders import After, Order, Queued, Submission
from store.quotas import add_queued
from store.secrets import kept_of, secrets_of
from store.statements import take_steps

LOCAL = "#"
"""How a job names another one of the same order, by its name."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read for all orders together."""

    tenants: Mapping[str, TenantFacts]
    room: QueueRoom
    devices: Devices
    images: Mapping[str, CatalogueImage]
    held: set[tuple[str, str]]
    """Inputs and secrets, by tenant."""
    standings: Mapping[str, tuple[TenantId, bool | None]]
    """Of the jobs and arrays that are waited for."""


def submit(session: Session, orders: Sequence[Order], now: Instant) -> list[Sequence[Queued] | CorralError]:
    """Queue what may be queued; of each order, what became of its submissions, or why it was refused.

    The refusals: `TenantSuspended` if the tenant or one above it is; `Invalid` if the image, an input or a secret is
    not there, the image cannot be run at the level asked for, or what it waits for can no longer come; `NotFound` if
    the tenant has no such job to wait for; `BeyondQuota` if a quota in the tree excludes such a job, now and later;
    `QuotaExceeded` if a queue is full; `BeyondKey` if the author's key is kept to other images or levels;
    `BatchRefused` with the places of these in an order of several.
    """
    known = _read(session, orders)
    new, room = NewJobs(now, known.devices), known.room
    outcomes: list[Sequence[Queued] | CorralError] = []
    for order in orders:
        try:
            tenant = _active(known.tenants, order.tenant_id)
            admitted = _all_admitted(order, tenant, known)
            room.take(tenant.path, order.count)
        except CorralError as refusal:
            outcomes.append(refusal)
        else:
            outcomes.append(_all_queued(new, order, admitted))
    if not new.are_none:
        add_queued(session, room.taken)
        new.write(session)
    return outcomes


def _read(session: Session, orders: Sequence[Order]) -> _Known:
    jobs = [(order.tenant_id, job) for order in orders for job in order.jobs]
    inputs = {(tenant_id, each) for tenant_id, job in jobs for each in job.inputs}
    secrets = {(tenant_id, each) for tenant_id, job in jobs for each in secrets_of(job.spec)}
    waited_for = {each.of for _, job in jobs for each in job.after if not each.of.startswith(LOCAL)}
    rows, images, gpus = take_steps(
        session,
        tenants_query({order.tenant_id for order in orders}),  # first: what follows is read under its locks
        images_query({job.image for _, job in jobs}),
        DEVICES,
    )
    tenants, room = locked_tenants(session, rows.found)
    return _Known(
        tenants,
        room,
        devices(gpus.found),
        admitted_images(session, images.found),
        held_inputs(session, inputs) | kept_of(session, secrets),
        standings(session, waited_for) if waited_for else {},
    )


def _active(tenants: Mapping[str, TenantFacts], tenant_id: TenantId) -> TenantFacts:
    tenant = tenants.get(tenant_id)
    if tenant is None:
        raise Invalid("there is no such tenant")
    if tenant.is_suspended:
        raise TenantSuspended
    return tenant


def _all_admitted(order: Order, tenant: TenantFacts, known: _Known) -> list[Admitted]:
    """Every submission of the order.

    Raises:
        CorralError: why its one submission is refused, or, of several, which are and why.
    """
    admitted: list[Admitted] = []
    refused: dict[int, CorralError] = {}
    names: dict[str, int] = {}
    for place, job in enumerate(order.jobs):
        try:
            admitted.append(_admitted(job, order, tenant, known, names))
        except CorralError as refusal:
            refused[place] = refusal
        if job.name is not None:
            names[job.name] = names.get(job.name, 0) + 1
    if refused and len(order.jobs) == 1:
        raise refused[0]
    if refused:
        raise BatchRefused(refused)
    return admitted


def _admitted(job: Submission, order: Order, tenant: TenantFacts, known: _Known, names: Mapping[str, int]) -> Admitted:
    image = known.images.get(job.image)
    if image is None or not image.is_for(tenant.path):
        raise Invalid(f"there is no image {job.image} in the catalogue", "see GET /v1/images, or: corral images")
    least = job.least_level or tenant.default_isolation
    wish = Wish(least, job.time_limit_us or tenant.default_time_limit_us, job.priority, job.gpus, job.models)
    order.author.check(image.name, least)
    check(wish, image, tenant.rules)
    for sha256 in job.inputs:
        if (order.tenant_id, sha256) not in known.held:
            raise Invalid(f"there is no input {sha256}", "store it first with POST /v1/inputs")
    for name in secrets_of(job.spec):
        if (order.tenant_id, name) not in known.held:
            raise Invalid(f"there is no secret {name}", "set it first: corral secrets set NAME")
    return Admitted(job, image, wish, tuple(_open(order.tenant_id, job.after, known, names)))


def _open(tenant_id: TenantId, after: Sequence[After], known: _Known, names: Mapping[str, int]) -> Iterator[After]:
    """Those that are not met yet.

    Raises:
        NotFound: the tenant has no such job or array.
        Invalid: one has ended otherwise, or the name of one in the same order does not say which.
    """
    for each in after:
        if each.of.startswith(LOCAL):
            if names.get(each.of.removeprefix(LOCAL)) != 1:
                raise Invalid(f"{each.of} is not the name of exactly one job before it")
            yield each
            continue
        owner, is_success = known.standings.get(each.of, (None, None))
        if owner != tenant_id:
            raise NotFound("array" if each.of.startswith("arr_") else "job")
        if is_success is None:
            yield each
        elif not each.condition.is_met(is_success):
            how = "succeeded" if is_success else "did not succeed"
            raise Invalid(f"{each.of} has ended and {how}: what is waited for can no longer come")


def _all_queued(new: NewJobs, order: Order, admitted: Sequence[Admitted]) -> list[Queued]:
    """Each in turn, so that those after it can name it."""
    queued: list[Queued] = []
    ids: dict[str, str] = {}
    for each in admitted:
        waits = tuple(After(ids.get(wait.of, wait.of), wait.condition) for wait in each.waits)
        queued.append(new.add(order, Admitted(each.job, each.image, each.wish, waits)))
        ids[f"{LOCAL}{each.job.name}"] = queued[-1].array_id or queued[-1].job_id
    return queued
