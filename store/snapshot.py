"""What the scheduler sees: four queries, and values instead of rows."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, bindparam, select, update
from sqlmodel import Session

from domain.budget import longest_us
from domain.ids import GpuId, Instant, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from domain.quota import allowed_levels, path_of
from domain.scheduling.snapshot import ANY_MODEL, ArrayRoom, Demand, Device, Reason, Snapshot, TenantShare
from domain.scheduling.snapshot import Node as NodeView
from domain.states import JobState
from store.barred_images import barred_images
from store.base import Row
from store.funds import funds
from store.tables import Gpu, Job, JobArray, Node, Quota, Tenant

log = logging.getLogger(__name__)

JOBS_IN_A_QUERY = 500
OnUnreadable = Callable[[JobId, Exception], None]


def _columns(row: type[Row], names: str) -> Select[Any]:
    """A query for plain columns: the ORM's objects, and even its statements, take several times as long."""
    table = row.metadata.tables[str(row.__tablename__)]
    return select(*(table.c[name] for name in names.split()))


_JOB = Row.metadata.tables["job"].c
_ARRAY = Row.metadata.tables["job_array"].c
_IS_WAITING = (_JOB.state == JobState.QUEUED) & _JOB.cancel_requested.is_(False) & (_JOB.waits_for == 0)
"""A job that waits for others has its reason already, and is left to them."""
_TENANTS = _columns(Tenant, "id parent_id weight state")
_QUOTAS = _columns(
    Quota,
    "tenant_id model gpu_ceiling_milli gpu_promised_milli gpu_kept_milli gpu_used_milli gpu_reserved_milli"
    " most_running running_used served_us isolation_levels",
)
_NODES = _columns(
    Node,
    "id name state is_reachable levels cuda_driver cpus_milli cpus_milli_used memory_bytes memory_bytes_used"
    " scratch_bytes scratch_bytes_used",
)
_GPUS = _columns(Gpu, "id node_id uuid model memory_bytes used_milli state health").where(
    Row.metadata.tables["gpu"].c.state != "absent"
)
_CHANGING = _columns(Job, "id tenant_id fence priority not_before_us reason_code").where(_IS_WAITING)
_JOBS = _columns(
    Job,
    "id fence tenant_id priority submitted_us not_before_us gpus models gpu_memory_min_bytes cpus_milli memory_bytes"
    " scratch_bytes output_bytes least_level image_kind image_reference min_cuda avoid_nodes"
    " time_limit_us grace_us key_id array_id",
).where(_IS_WAITING, _JOB.id.in_(bindparam("wanted", expanding=True)))

_ARRAYS = _columns(JobArray, "id most_running running_used").where(
    _ARRAY.most_running.is_not(None), _ARRAY.unfinished > 0
)


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
        quotas: dict[str, dict[str, Any]] = {}
        for quota in _rows(session, _QUOTAS):
            quotas.setdefault(quota.tenant_id, {})[quota.model] = quota
        tenants = {TenantId(row.id): _share(row, quotas.get(row.id, {})) for row in _rows(session, _TENANTS)}
        levels = {tenant_id: allowed_levels(path_of(tenants, tenant_id)) for tenant_id in tenants}
        return Snapshot(
            nodes=_nodes(session),
            tenants=tenants,
            queue=self._queue(session, levels),
            arrays={row.id: ArrayRoom(row.most_running, row.running_used) for row in _rows(session, _ARRAYS)},
            barred_images=barred_images(session),
            funds=funds(session),
        )

    def _queue(self, session: Session, levels: Mapping[TenantId, frozenset[Level]]) -> tuple[Demand, ...]:
        rows = _rows(session, _CHANGING)
        known = self._known
        self._known = {row.id: known[row.id] for row in rows if _is_as_known(row, known.get(row.id), levels)}
        self.codes = {row.id: row.reason_code for row in rows}
        unknown = [row.id for row in rows if row.id not in self._known]
        for start in range(0, len(unknown), JOBS_IN_A_QUERY):
            for row in _rows(session, _JOBS, wanted=unknown[start : start + JOBS_IN_A_QUERY]):
                self._learn(row, levels)
        return tuple(demand for _, demand in self._known.values())

    def _learn(self, row: Any, levels: Mapping[TenantId, frozenset[Level]]) -> None:
        try:
            self._known[JobId(row.id)] = (row.fence, _demand(row, levels[row.tenant_id]))
        except (KeyError, TypeError, ValueError) as error:
            self._on_unreadable(JobId(row.id), error)


def write_reasons(session: Session, reasons: Mapping[JobId, Reason]) -> None:
    """Tell of these jobs why they wait, if they still do. In the order of their ids, so that locks never cross."""
    if not reasons:
        return
    statement = (
        update(Row.metadata.tables["job"])
        .where(_JOB.id == bindparam("of_job"), _JOB.state == JobState.QUEUED)
        .values(reason_code=bindparam("code"), reason_text=bindparam("sentence"), reason_numbers=bindparam("numbers"))
    )
    rows = [
        {"of_job": job_id, "code": reason.code, "sentence": reason.text, "numbers": dict(reason.numbers)}
        for job_id, reason in sorted(reasons.items())
    ]
    session.connection().execute(statement, rows)


def _rows(session: Session, query: Select[Any], **values: Any) -> Sequence[Any]:
    return session.connection().execute(query, values).all()


def _nodes(session: Session) -> tuple[NodeView, ...]:
    devices: dict[str, list[Device]] = {}
    for gpu in _rows(session, _GPUS):
        devices.setdefault(gpu.node_id, []).append(_device(gpu))
    return tuple(_node(row, tuple(devices.get(row.id, ()))) for row in _rows(session, _NODES))


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
        gpu_limit_milli={model: row.gpu_ceiling_milli for model, row in rows.items()},
        gpu_used_milli={model: row.gpu_used_milli for model, row in rows.items()},
        # without a row nothing was granted
        running_limit=0 if everything is None else everything.most_running,
        running=0 if everything is None else everything.running_used,
        served_at=Instant(0 if everything is None else everything.served_us),
        gpu_promised_milli={model: row.gpu_promised_milli for model, row in rows.items() if row.gpu_promised_milli},
        gpu_kept_milli={model: row.gpu_kept_milli for model, row in rows.items() if row.gpu_kept_milli},
        gpu_reserved_milli={model: row.gpu_reserved_milli for model, row in rows.items() if row.gpu_reserved_milli},
        levels=None
        if everything is None or everything.isolation_levels is None
        else _levels(everything.isolation_levels),
    )


def _levels(names: Sequence[str]) -> frozenset[Level]:
    """Those of the names that are levels."""
    return frozenset(level for level in Level if level in names)


def _is_as_known(row: Any, known: tuple[int, Demand] | None, levels: Mapping[TenantId, frozenset[Level]]) -> bool:
    if known is None:
        return False
    fence, demand = known
    return (
        fence == row.fence
        and demand.priority == row.priority
        and demand.not_before == row.not_before_us
        and demand.allowed_levels == levels.get(row.tenant_id)
    )


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
        image_reference=row.image_reference,
        longest_us=longest_us(row.time_limit_us, row.grace_us),
        key_id=row.key_id,
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
