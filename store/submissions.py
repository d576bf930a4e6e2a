"""A new job: checked against the catalogue and the quotas, and queued, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from domain.errors import BeyondQuota, Invalid, TenantSuspended
from domain.ids import TenantId
from domain.levels import ImageKind, Level, runs_at
from domain.scheduling.snapshot import ANY_MODEL, WHOLE_GPU
from domain.states import JobState
from store.clock import now_us
from store.events import record
from store.ids import new_id
from store.keys import is_suspended
from store.locks import tree
from store.quotas import take_queue_slot
from store.tables import Gpu, Image, Job, JobInput, Quota, StoredInput, Tenant


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


def submit(session: Session, tenant_id: TenantId, asked: Submission) -> Job:
    """Queue the job.

    Raises:
        TenantSuspended: the tenant or one above it is.
        Invalid: the image or an input is not there, or the image cannot be run at the level asked for.
        BeyondQuota: a quota in the tree excludes such a job, now and later.
        QuotaExceeded: the queue is full.
    """
    tenant = session.get(Tenant, tenant_id)
    if tenant is None:
        raise Invalid("there is no such tenant")
    if is_suspended(session, tenant_id):
        raise TenantSuspended
    image = _admitted_image(session, asked.image)
    least = asked.least_level or Level(tenant.default_isolation)
    time_limit_us = asked.time_limit_us or tenant.default_time_limit_us
    _check_level(image, least)
    _check_inputs(session, tenant_id, asked.inputs)
    for each in tree(session, tenant_id):
        _check_quota(session, each, asked, image, least, time_limit_us)
    take_queue_slot(session, tenant_id)
    job = _job(session, tenant_id, asked, image, least, time_limit_us)
    record(session, "submitted", tenant_id=tenant_id, job_id=job.id, text="the job was queued")
    _warn_of_no_device(session, job)
    return job


def _admitted_image(session: Session, name: str) -> Image:
    image = session.get(Image, name)
    if image is None or image.state != "admitted":
        raise Invalid(f"there is no image {name} in the catalogue", "see GET /v1/images")
    return image


def _check_level(image: Image, least: Level) -> None:
    if not any(_may_run(image, level, least) for level in Level):
        where = "process only" if image.kind == ImageKind.HOST else "container and above only"
        raise Invalid(
            f"image {image.name} runs at the level {where}, and {least} was asked for",
            'ask for "isolation": "process", or another image' if image.kind == ImageKind.HOST else "",
        )


def _may_run(image: Image, level: Level, least: Level) -> bool:
    return level.strength >= least.strength and runs_at(ImageKind(image.kind), level)


def _check_inputs(session: Session, tenant_id: TenantId, inputs: Sequence[str]) -> None:
    if not inputs:
        return
    held = session.exec(
        select(StoredInput.sha256).where(StoredInput.tenant_id == tenant_id, col(StoredInput.sha256).in_(inputs))
    ).all()
    for missing in set(inputs) - set(held):
        raise Invalid(f"there is no input {missing}", "store it first with POST /v1/inputs")


def _check_quota(
    session: Session, tenant_id: TenantId, asked: Submission, image: Image, least: Level, time_limit_us: int
) -> None:
    """One quota of the tree: whether a job like this could ever run under it."""
    rows = {row.model: row for row in session.exec(select(Quota).where(Quota.tenant_id == tenant_id))}
    rules = rows[ANY_MODEL]
    if rules.longest_time_limit_us is not None and time_limit_us > rules.longest_time_limit_us:
        most = _span_text(rules.longest_time_limit_us)
        raise BeyondQuota(f"the time limit of {_span_text(time_limit_us)} is over the quota's {most}")
    if rules.highest_priority is not None and asked.priority > rules.highest_priority:
        raise BeyondQuota("the priority is over the highest that the quota allows")
    if rules.images is not None and image.name not in rules.images:
        raise BeyondQuota(f"the quota does not allow image {image.name}")
    allowed = rules.isolation_levels
    if allowed is not None and not any(_may_run(image, Level(level), least) for level in allowed):
        raise BeyondQuota(f"the quota allows no isolation level at which this runs: it allows {', '.join(allowed)}")
    if asked.gpus:
        _check_gpus(rows, asked)


def _check_gpus(rows: Mapping[str, Quota], asked: Submission) -> None:
    """A job's devices are all of one model, so it fits if one of the accepted ones leaves enough."""
    wanted = asked.gpus * WHOLE_GPU
    bounds = [rows[ANY_MODEL].gpu_limit_milli]
    if asked.models:
        limits = [rows[model].gpu_limit_milli if model in rows else None for model in set(asked.models)]
        bounds.append(None if None in limits else max(limit for limit in limits if limit is not None))
    for bound in bounds:
        if bound is not None and wanted > bound:
            raise BeyondQuota(f"asked for {asked.gpus} GPUs at once, and the quota allows {bound // WHOLE_GPU}")


def _span_text(us: int) -> str:
    """A span in the largest unit that divides it: 604800 s are 7d."""
    seconds = us // 10**6
    unit, size = next(each for each in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)) if seconds % each[1] == 0)
    return f"{seconds // size}{unit}"


def _job(
    session: Session, tenant_id: TenantId, asked: Submission, image: Image, least: Level, time_limit_us: int
) -> Job:
    job = Job(
        id=new_id("job"),
        tenant_id=tenant_id,
        name=asked.name,
        state=JobState.QUEUED,
        spec=dict(asked.spec),
        priority=asked.priority,
        image_name=image.name,
        image_kind=image.kind,
        image_reference=image.reference,
        min_cuda=image.min_cuda,
        least_level=least,
        time_limit_us=time_limit_us,
        grace_us=asked.grace_us,
        max_unreachable_us=asked.max_unreachable_us,
        gpus=asked.gpus,
        models=list(asked.models),
        gpu_memory_min_bytes=asked.gpu_memory_min_bytes,
        cpus_milli=asked.cpus_milli,
        memory_bytes=asked.memory_bytes,
        shm_bytes=asked.shm_bytes,
        scratch_bytes=asked.scratch_bytes,
        output_bytes=asked.output_bytes,
        retry_limit=asked.retry_limit,
        retry_on=list(asked.retry_on),
        submitted_us=now_us(session),
    )
    session.add(job)
    session.flush()
    session.add_all(JobInput(job_id=job.id, position=n, sha256=sha256) for n, sha256 in enumerate(asked.inputs))
    session.flush()
    return job


def _warn_of_no_device(session: Session, job: Job) -> None:
    """Not a refusal: a node that has such devices may join."""
    if not job.gpus:
        return
    query = select(Gpu.id).where(Gpu.state != "absent", col(Gpu.memory_bytes) >= job.gpu_memory_min_bytes)
    if job.models:
        query = query.where(col(Gpu.model).in_(job.models))
    if len(session.exec(query.limit(job.gpus)).all()) < job.gpus:
        text = "no node known now has such devices; it waits until one joins"
        record(session, "no_device_known", tenant_id=job.tenant_id, job_id=job.id, text=text)
