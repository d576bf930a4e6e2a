"""What the scheduler sees: four queries, and values instead of rows."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, update
from sqlmodel import Session, col, select

from domain.ids import GpuId, Instant, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from domain.scheduling.snapshot import ANY_MODEL, Demand, Device, Reason, Snapshot, TenantShare
from domain.scheduling.snapshot import Node as NodeView
from domain.states import JobState
from store.tables import Gpu, Job, Node, Quota, Tenant

log = logging.getLogger(__name__)

ALL_LEVELS = frozenset(Level)
# plain columns: with the ORM's objects it takes three times as long
TENANT_COLUMNS: Sequence[Any] = (Tenant.id, Tenant.parent_id, Tenant.weight, Tenant.state)
QUOTA_COLUMNS: Sequence[Any] = (
    Quota.tenant_id,
    Quota.model,
    Quota.gpu_limit_milli,
    Quota.gpu_used_milli,
    Quota.most_running,
    Quota.running_used,
    Quota.isolation_levels,
)
NODE_COLUMNS: Sequence[Any] = (
    Node.id,
    Node.name,
    Node.state,
    Node.is_reachable,
    Node.levels,
    Node.cuda_driver,
    Node.cpus_milli,
    Node.cpus_milli_used,
    Node.memory_bytes,
    Node.memory_bytes_used,
    Node.scratch_bytes,
    Node.scratch_bytes_used,
)
GPU_COLUMNS: Sequence[Any] = (
    Gpu.id,
    Gpu.node_id,
    Gpu.uuid,
    Gpu.model,
    Gpu.memory_bytes,
    Gpu.used_milli,
    Gpu.state,
    Gpu.health,
)
CHANGING_COLUMNS: Sequence[Any] = (
    Job.id,
    Job.tenant_id,
    Job.fence,
    Job.priority,
    Job.not_before_us,
    Job.reason_code,
)
JOBS_IN_A_QUERY = 500
JOB_COLUMNS: Sequence[Any] = (
    Job.id,
    Job.fence,
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
OnUnreadable = Callable[[JobId, Exception], None]


class SnapshotReader:
    """Reads one snapshot after another; of a queued job that it knows, only what may have changed since.

    A job whose row makes no sense is left out, and told to `on_unreadable` (by default, logged).
    """

    def __init__(self, on_unreadable: OnUnreadable | None = None) -> None:
        self._on_unreadable = on_unreadable or _log_unreadable
        self._known: dict[JobId, tuple[int, Demand]] = {}
        """By job: the fence under which it was read. It grows with each assignment, and nothing else changes a job."""
        self.codes: dict[JobId, str | None] = {}
        """Why each job of the last snapshot waits, as the database has it."""

    def read(self, session: Session) -> Snapshot:
        """The cluster, the tenants, and all queued jobs that nobody asked to cancel."""
        tenants = {row.id: row for row in _rows(session, TENANT_COLUMNS)}
        quotas: dict[str, dict[str, Any]] = {tenant_id: {} for tenant_id in tenants}
        for quota in _rows(session, QUOTA_COLUMNS):
            quotas.setdefault(quota.tenant_id, {})[quota.model] = quota
        levels = {tenant_id: _allowed_levels(tenant_id, tenants, quotas) for tenant_id in tenants}
        return Snapshot(
            nodes=_nodes(session),
            tenants={TenantId(each): _share(tenants[each], quotas[each]) for each in tenants},
            queue=self._queue(session, levels),
        )

    def _queue(self, session: Session, levels: Mapping[str, frozenset[Level]]) -> tuple[Demand, ...]:
        rows = _rows(session, CHANGING_COLUMNS, _is_waiting())
        known = self._known
        self._known = {row.id: known[row.id] for row in rows if _is_as_known(row, known.get(row.id), levels)}
        self.codes = {row.id: row.reason_code for row in rows}
        unknown = [row.id for row in rows if row.id not in self._known]
        for start in range(0, len(unknown), JOBS_IN_A_QUERY):
            wanted = col(Job.id).in_(unknown[start : start + JOBS_IN_A_QUERY])
            for row in _rows(session, JOB_COLUMNS, wanted & _is_waiting()):
                self._learn(row, levels)
        return tuple(demand for _, demand in self._known.values())

    def _learn(self, row: Any, levels: Mapping[str, frozenset[Level]]) -> None:
        try:
            self._known[JobId(row.id)] = (row.fence, _demand(row, levels[row.tenant_id]))
        except (KeyError, TypeError, ValueError) as error:
            self._on_unreadable(JobId(row.id), error)


def load_snapshot(session: Session) -> Snapshot:
    """A snapshot by itself."""
    return SnapshotReader().read(session)


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


def _rows(session: Session, columns: Sequence[Any], *conditions: Any) -> Sequence[Any]:
    return session.connection().execute(select(*columns).where(*conditions)).all()


def _nodes(session: Session) -> tuple[NodeView, ...]:
    devices: dict[str, list[Device]] = {}
    for gpu in _rows(session, GPU_COLUMNS, col(Gpu.state) != "absent"):
        devices.setdefault(gpu.node_id, []).append(_device(gpu))
    return tuple(_node(row, tuple(devices.get(row.id, ()))) for row in _rows(session, NODE_COLUMNS))


def _device(gpu: Any) -> Device:
    is_free = gpu.used_milli == 0 and gpu.state == "clean" and gpu.health == "ok"
    return Device(GpuId(gpu.id), gpu.uuid, gpu.model, gpu.memory_bytes, is_free)


def _node(row: Any, devices: tuple[Device, ...]) -> NodeView:
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


def _share(tenant: Any, rows: Mapping[str, Any]) -> TenantShare:
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
    tenant_id: str, tenants: Mapping[str, Any], quotas: Mapping[str, Mapping[str, Any]]
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


def _is_as_known(row: Any, known: tuple[int, Demand] | None, levels: Mapping[str, frozenset[Level]]) -> bool:
    if known is None:
        return False
    fence, demand = known
    return (
        fence == row.fence
        and demand.priority == row.priority
        and demand.not_before == row.not_before_us
        and demand.allowed_levels == levels.get(row.tenant_id)
    )


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


def _driver_version(row: Any) -> tuple[int, int] | None:
    """What the worker told; what can't be read counts as no driver, so that nothing that needs one is placed there."""
    try:
        return _version(row.cuda_driver)
    except ValueError:
        log.warning("node %s tells a CUDA version that can't be read", row.id)
        return None


def _log_unreadable(job_id: JobId, error: Exception) -> None:
    log.error("job %s can't be read (%s: %s); it is left out", job_id, type(error).__name__, error)
