"""What the scheduler sees: four queries, and values instead of rows."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, update
from sqlmodel import Session, col, select

from domain.ids import GpuId, Instant, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from domain.scheduling.snapshot import ANY_MODEL, Demand, Device, Plan, Reason, Snapshot, TenantShare
from domain.scheduling.snapshot import Node as NodeView
from domain.states import JobState
from store.tables import Gpu, Job, Node, Quota, Tenant

log = logging.getLogger(__name__)

ALL_LEVELS = frozenset(Level)
OnUnreadable = Callable[[JobId, Exception], None]


def load_snapshot(session: Session, on_unreadable: OnUnreadable | None = None) -> Snapshot:
    """The cluster, the tenants, and all queued jobs that nobody asked to cancel or hold.

    A job whose row makes no sense is left out, and told to `on_unreadable` (by default, logged).
    """
    tenants = {row.id: row for row in session.exec(select(Tenant))}
    quotas: dict[str, dict[str, Quota]] = {tenant_id: {} for tenant_id in tenants}
    for quota in session.exec(select(Quota)):
        quotas[quota.tenant_id][quota.model] = quota
    levels = {tenant_id: _allowed_levels(tenant_id, tenants, quotas) for tenant_id in tenants}
    return Snapshot(
        nodes=_nodes(session),
        tenants={TenantId(each): _share(tenants[each], quotas[each]) for each in tenants},
        queue=_queue(session, levels, on_unreadable or _log_unreadable),
    )


def changed_reasons(session: Session, plan: Plan) -> tuple[dict[JobId, Reason], dict[JobId, Reason]]:
    """The reasons that differ from what stands in the database: those with another code, and the rest."""
    recoded: dict[JobId, Reason] = {}
    renumbered: dict[JobId, Reason] = {}
    rows = session.execute(select(Job.id, Job.reason_code, Job.reason_text, Job.reason_numbers).where(_is_waiting()))
    for job_id, code, sentence, numbers in rows:
        reason = plan.waiting.get(JobId(job_id))
        if reason is None:
            continue
        if reason.code != code:
            recoded[JobId(job_id)] = reason
        elif reason.text != sentence or dict(reason.numbers) != numbers:
            renumbered[JobId(job_id)] = reason
    return recoded, renumbered


def write_reasons(session: Session, reasons: Mapping[JobId, Reason]) -> None:
    """Tell of these jobs why they wait, if they still do. In the order of their ids, so that locks never cross."""
    if not reasons:
        return
    statement = (
        update(Job.__table__)  # type: ignore[attr-defined]
        .where(col(Job.id) == bindparam("of_job"), col(Job.state) == JobState.QUEUED)
        .values(reason_code=bindparam("code"), reason_text=bindparam("sentence"), reason_numbers=bindparam("numbers"))
    )
    rows = [
        {"of_job": job_id, "code": reason.code, "sentence": reason.text, "numbers": dict(reason.numbers)}
        for job_id, reason in sorted(reasons.items())
    ]
    session.connection().execute(statement, rows)


def _nodes(session: Session) -> tuple[NodeView, ...]:
    devices: dict[str, list[Device]] = {}
    for gpu in session.exec(select(Gpu).where(col(Gpu.state) != "absent").order_by(col(Gpu.uuid))):
        devices.setdefault(gpu.node_id, []).append(_device(gpu))
    return tuple(_node(row, tuple(devices.get(row.id, ()))) for row in session.exec(select(Node)))


def _device(gpu: Gpu) -> Device:
    is_free = gpu.used_milli == 0 and gpu.state == "clean" and gpu.health == "ok"
    return Device(GpuId(gpu.id), gpu.uuid, gpu.model, gpu.memory_bytes, is_free)


def _node(row: Node, devices: tuple[Device, ...]) -> NodeView:
    return NodeView(
        node_id=NodeId(row.id),
        name=row.name,
        is_open=row.state == "ready" and row.is_reachable,
        levels=_levels(row.levels),
        cuda_driver=_driver_version(row),
        cpus_milli_free=max(0, row.cpus_milli - row.cpus_milli_used),
        memory_bytes_free=max(0, row.memory_bytes - row.memory_bytes_used),
        scratch_bytes_free=max(0, row.scratch_bytes - row.scratch_bytes_used),
        cpus_milli=row.cpus_milli,
        memory_bytes=row.memory_bytes,
        scratch_bytes=row.scratch_bytes,
        devices=devices,
    )


def _share(tenant: Tenant, rows: Mapping[str, Quota]) -> TenantShare:
    everything = rows.get(ANY_MODEL)
    return TenantShare(
        tenant_id=TenantId(tenant.id),
        parent_id=None if tenant.parent_id is None else TenantId(tenant.parent_id),
        weight=tenant.weight,
        is_active=tenant.state == "active",
        gpu_limit_milli={model: row.gpu_limit_milli for model, row in rows.items()},
        gpu_used_milli={model: row.gpu_used_milli for model, row in rows.items()},
        # without a row nothing was granted
        running_limit=0 if everything is None else everything.most_running,
        running=0 if everything is None else everything.running_used,
    )


def _allowed_levels(
    tenant_id: str, tenants: Mapping[str, Tenant], quotas: Mapping[str, Mapping[str, Quota]]
) -> frozenset[Level]:
    """What every quota from the tenant up to the root allows; one that names no levels allows all."""
    allowed = ALL_LEVELS
    step: str | None = tenant_id
    while step is not None:
        row = quotas[step].get(ANY_MODEL)
        if row is not None and row.isolation_levels is not None:
            allowed &= _levels(row.isolation_levels)
        step = tenants[step].parent_id
    return allowed


def _levels(names: Sequence[str]) -> frozenset[Level]:
    """Those of the names that are levels."""
    return frozenset(level for level in Level if level in names)


def _queue(session: Session, levels: Mapping[str, frozenset[Level]], on_unreadable: OnUnreadable) -> tuple[Demand, ...]:
    columns: Sequence[Any] = (
        Job.id,
        Job.tenant_id,
        Job.priority,
        Job.submitted_us,
        Job.not_before_us,
        Job.gpus,
        Job.models,
        Job.gpu_memory_min_bytes,
        Job.cpus_milli,
        Job.memory_bytes,
        Job.scratch_bytes,
        Job.output_bytes,
        Job.least_level,
        Job.image_kind,
        Job.min_cuda,
        Job.avoid_nodes,
    )
    queue: list[Demand] = []
    for row in session.execute(select(*columns).where(_is_waiting())):  # plain columns: rows cost three times as much
        try:
            queue.append(_demand(row, levels[row.tenant_id]))
        except (KeyError, TypeError, ValueError) as error:
            on_unreadable(JobId(row.id), error)
    return tuple(queue)


def _is_waiting() -> Any:
    return (col(Job.state) == JobState.QUEUED) & col(Job.cancel_requested).is_(False)


def _demand(row: Any, allowed_levels: frozenset[Level]) -> Demand:
    return Demand(
        job_id=JobId(row.id),
        tenant_id=TenantId(row.tenant_id),
        priority=row.priority,
        submitted_at=Instant(row.submitted_us),
        not_before=Instant(row.not_before_us),
        gpus=row.gpus,
        models=tuple(row.models),
        gpu_memory_min_bytes=row.gpu_memory_min_bytes,
        cpus_milli=row.cpus_milli,
        memory_bytes=row.memory_bytes,
        scratch_bytes=row.scratch_bytes + row.output_bytes,
        least_level=Level(row.least_level),
        allowed_levels=allowed_levels,
        image_kind=ImageKind(row.image_kind),
        min_cuda=_version(row.min_cuda),
        avoid=frozenset(NodeId(each) for each in row.avoid_nodes),
    )


def _version(dotted: str | None) -> tuple[int, int] | None:
    """`12.8` as two numbers; a version without a dot has a minor of 0."""
    if dotted is None:
        return None
    major, _, minor = dotted.partition(".")
    return int(major), int(minor.partition(".")[0] or 0)


def _driver_version(row: Node) -> tuple[int, int] | None:
    """What the worker told; what can't be read counts as no driver, so that nothing that needs one is placed there."""
    try:
        return _version(row.cuda_driver)
    except ValueError:
        log.warning("node %s tells a CUDA version that can't be read", row.id)
        return None


def _log_unreadable(job_id: JobId, error: Exception) -> None:
    log.error("job %s can't be read (%s: %s); it is left out", job_id, type(error).__name__, error)
