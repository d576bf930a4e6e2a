"""Quotas, what is asked for beyond them, and previews, as they are shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from corral.jobs import PRIORITIES
from corral.quantities import duration_text
from corral.quotas import (
    GpuQuotaView,
    OverRow,
    PreviewedJob,
    QuotaPreview,
    QuotaRequestView,
    QuotaView,
    RunningOver,
)

from domain.budget import GPU_HOUR_US
from domain.ids import JobId, TenantId
from domain.purse import Purse, Unit
from domain.quota_terms import (
    DEFAULT_HIGHEST_PRIORITY,
    DEFAULT_ISOLATION_LEVELS,
    DEFAULT_LONGEST_TIME_LIMIT_US,
    DEFAULT_MOST_QUEUED,
    DEFAULT_MOST_RUNNING,
)
from domain.scheduling.snapshot import ANY_MODEL, WHOLE_GPU, Reason
from store.quota_previews import Preview
from store.tables import Quota, QuotaRequest

LISTED_MAX = 200
"""Jobs in each list of a preview."""
Path = Sequence[Mapping[str, Quota]]
"""The rows of a tenant, of the one above it, and so on, by model."""


def quota_view(path: Path, months: Sequence[Mapping[Unit, Purse]], grants: Sequence[QuotaRequest]) -> QuotaView:
    """A tenant's quota as it applies, and what is used of it."""
    rows = [each[ANY_MODEL] for each in path]
    own = rows[0]
    steps: dict[str, int] = {}

    def least(name: str, value: Callable[[Quota], int | None], default: int) -> int:
        found, steps[name] = _least(map(value, rows))
        return default if found is None else found

    def common(name: str, value: Callable[[Quota], Sequence[str] | None]) -> list[str] | None:
        found, steps[name] = _common(map(value, rows))
        return found

    def monthly(name: str, unit: Unit, size: int) -> int | None:
        found, steps[name] = _least(each[unit].bound if unit in each else None for each in months)
        return None if found is None else found // size

    levels = common("isolation_levels", lambda row: row.isolation_levels)
    return QuotaView.model_validate(
        {
            "tenant_id": own.tenant_id,
            "version": own.version,
            "gpus": [_gpu_view(path, model) for model in _models(path)],
            "most_queued": least("most_queued", lambda row: row.most_queued, DEFAULT_MOST_QUEUED),
            "queued": own.queued_used,
            "most_running": least("most_running", lambda row: row.most_running, DEFAULT_MOST_RUNNING),
            "running": own.running_used,
            "longest_time_limit": duration_text(
                least("longest_time_limit", lambda row: row.longest_time_limit_us, DEFAULT_LONGEST_TIME_LIMIT_US)
            ),
            "highest_priority": PRIORITIES[
                least("highest_priority", lambda row: row.highest_priority, DEFAULT_HIGHEST_PRIORITY)
            ],
            "isolation_levels": list(DEFAULT_ISOLATION_LEVELS) if levels is None else levels,
            "images": common("images", lambda row: row.images),
            "gpu_hours_per_month": monthly("gpu_hours_per_month", Unit.GPU_TIME, GPU_HOUR_US),
            "money_micro_per_month": monthly("money_micro_per_month", Unit.MONEY, 1),
            "steps_up": steps,
            "own": _own(path[0], months[0]),
            "grants": [request_view(each) for each in grants],
            "over": _over(path[0], months[0]),
        }
    )


def request_view(request: QuotaRequest) -> QuotaRequestView:
    """A wish, or a grant."""
    return QuotaRequestView.model_validate(
        {
            "id": request.id,
            "tenant_id": request.tenant_id,
            "model": request.model,
            "limit": request.limit_milli // WHOLE_GPU,
            "guaranteed": request.guaranteed_milli // WHOLE_GPU,
            "reason": request.reason,
            "state": request.state,
            "created_at": request.created_us,
            "until": request.until_us,
            "decided_at": request.decided_us,
            "answer": request.answer,
            "ended_at": request.ended_us,
        }
    )


def preview_view(found: Preview) -> QuotaPreview:
    """What a change would do, each list cut to what a page holds."""
    owners, differs = found.owners, found.difference
    starts = [PreviewedJob(job_id=each, tenant_id=owners[each]) for each in differs.starts if each in owners]
    waits, keeps = _waiting(differs.waits, owners), _waiting(differs.keeps_waiting, owners)
    running = [RunningOver.model_validate(asdict(each)) for each in found.running]
    return QuotaPreview(
        tenant_id=found.tenant_id,
        over=[OverRow(row=each.row, limit=each.limit, used=each.used, over=each.over) for each in found.over],
        running=running[:LISTED_MAX],
        starts=starts[:LISTED_MAX],
        waits=waits[:LISTED_MAX],
        keeps_waiting=keeps[:LISTED_MAX],
        left_out=sum(max(0, len(each) - LISTED_MAX) for each in (running, starts, waits, keeps)),
    )


def _waiting(reasons: Mapping[JobId, Reason], owners: Mapping[JobId, TenantId]) -> list[PreviewedJob]:
    return [
        PreviewedJob(job_id=job_id, tenant_id=owners[job_id], code=reason.code, text=reason.text)
        for job_id, reason in reasons.items()
        if job_id in owners
    ]


def _least(values: Iterable[int | None]) -> tuple[int | None, int]:
    """The narrowest of the values, and how many steps up it stands; the nearest among equals."""
    said = [(value, steps) for steps, value in enumerate(values) if value is not None]
    return min(said, default=(None, 0))


def _common(values: Iterable[Sequence[str] | None]) -> tuple[list[str] | None, int]:
    """What all that say something allow, and who narrowed it last on the way up."""
    found: list[str] | None = None
    narrowed = 0
    for steps, value in enumerate(values):
        if value is not None and (found is None or not set(found) <= set(value)):
            found, narrowed = [each for each in value if found is None or each in found], steps
    return found, narrowed


def _models(path: Path) -> list[str]:
    """Of its own rows all; of those above it only what bounds it, since the rest tells of others' use."""
    bounding = {model for rows in path[1:] for model, row in rows.items() if row.gpu_ceiling_milli is not None}
    return sorted({*path[0], *bounding})


def _gpu_view(path: Path, model: str) -> GpuQuotaView:
    limit, steps = _least(row.gpu_ceiling_milli if (row := rows.get(model)) is not None else None for rows in path)
    own = path[0].get(model)
    if own is None:
        return GpuQuotaView(model=model, limit=_gpus(limit), steps_up=steps, used_milli=0)
    return GpuQuotaView(
        model=model,
        limit=_gpus(limit),
        steps_up=steps,
        guaranteed=own.gpu_promised_milli // WHOLE_GPU,
        borrowable=_gpus(own.gpu_borrowable_milli),
        lendable=_gpus(own.gpu_lendable_milli),
        used_milli=own.gpu_used_milli,
        reserved_milli=own.gpu_reserved_milli,
    )


def _gpus(milli: int | None) -> int | None:
    return None if milli is None else milli // WHOLE_GPU


def _own(rows: Mapping[str, Quota], month: Mapping[Unit, Purse]) -> dict[str, Any]:
    """What is set for the tenant itself, as it is sent; what is inherited is left out."""
    everything = rows[ANY_MODEL]
    longest_us, priority = everything.longest_time_limit_us, everything.highest_priority
    said = {
        "most_queued": everything.most_queued,
        "most_running": everything.most_running,
        "longest_time_limit": None if longest_us is None else duration_text(longest_us),
        "highest_priority": None if priority is None else PRIORITIES[priority],
        "isolation_levels": everything.isolation_levels,
        "images": everything.images,
        "gpu_hours_per_month": month[Unit.GPU_TIME].bound // GPU_HOUR_US if Unit.GPU_TIME in month else None,
        "money_micro_per_month": month[Unit.MONEY].bound if Unit.MONEY in month else None,
    }
    gpus = [_own_row(rows[model]) for model in sorted(rows) if rows[model].is_set]
    return {"gpus": gpus, **{name: value for name, value in said.items() if value is not None}}


def _own_row(row: Quota) -> dict[str, Any]:
    said = {
        "limit": _gpus(row.gpu_limit_milli),
        "guaranteed": row.gpu_guaranteed_milli // WHOLE_GPU or None,
        "borrowable": _gpus(row.gpu_borrowable_milli),
        "lendable": _gpus(row.gpu_lendable_milli),
    }
    return {"model": row.model, **{name: value for name, value in said.items() if value is not None}}


def _over(rows: Mapping[str, Quota], month: Mapping[Unit, Purse]) -> list[str]:
    over = [
        f"gpus:{model}"
        for model, row in sorted(rows.items())
        if row.gpu_ceiling_milli is not None and row.gpu_used_milli > row.gpu_ceiling_milli
    ]
    everything = rows[ANY_MODEL]
    if everything.most_queued is not None and everything.queued_used > everything.most_queued:
        over.append("queued")
    if everything.most_running is not None and everything.running_used > everything.most_running:
        over.append("running")
    over += [f"{unit} in this month" for unit, purse in sorted(month.items()) if purse.held + purse.spent > purse.bound]
    return over
