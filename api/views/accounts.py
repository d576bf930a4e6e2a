"""Tenants, quotas, prices and the ledger, as they are shown."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from corral.accounts import (
    GpuQuotaView,
    LedgerEntryView,
    QuotaView,
    TenantView,
    UsageRow,
    UsageView,
)
from corral.jobs import PRIORITIES
from corral.quantities import duration_text

from domain.money import gpu_hours_text
from domain.scheduling.snapshot import ANY_MODEL
from store.tables import LedgerEntry, Quota, Tenant
from store.usage import Group, Key, Sum

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIELDS: Mapping[Group, str] = {
    "tenant": "tenant_id",
    "job": "job_id",
    "model": "model",
    "day": "day",
    "cause": "cause",
}
"""Where a row of usage shows the value of a group."""


def tenant_view(tenant: Tenant) -> TenantView:
    """A tenant."""
    return TenantView.model_validate(
        {
            "id": tenant.id,
            "name": tenant.name,
            "parent_id": tenant.parent_id,
            "weight": tenant.weight,
            "state": tenant.state,
            "default_isolation": tenant.default_isolation,
            "default_time_limit": duration_text(tenant.default_time_limit_us),
        }
    )


def quota_view(tenant_id: str, rows: Sequence[Quota]) -> QuotaView:
    """A tenant's quota and what is used of it."""
    everything = next(row for row in rows if row.model == ANY_MODEL)
    longest_us = everything.longest_time_limit_us
    return QuotaView.model_validate(
        {
            "tenant_id": tenant_id,
            "gpus": [_gpu_quota(row) for row in sorted(rows, key=lambda row: row.model)],
            "most_queued": everything.most_queued or 0,
            "queued": everything.queued_used,
            "most_running": everything.most_running or 0,
            "running": everything.running_used,
            "longest_time_limit": duration_text(longest_us or 0),
            "highest_priority": PRIORITIES[everything.highest_priority or 0],
            "isolation_levels": everything.isolation_levels or [],
            "images": everything.images,
            "over": _over(rows, everything),
        }
    )


def entry_view(entry: LedgerEntry) -> LedgerEntryView:
    """A line of the ledger."""
    values = entry.model_dump()
    return LedgerEntryView.model_validate({**values, "posted_at": entry.posted_us})


def usage_view(groups: Sequence[Group], sums: Mapping[Key, Sum], since: int | None, until: int | None) -> UsageView:
    """The ledger's sums, sorted by what they are grouped by."""
    total_us_milli = sum(each.gpu_us_milli for each in sums.values())
    return UsageView(
        since=since,
        until=until,
        group_by=list(groups),
        rows=[_usage_row(groups, key, sums[key]) for key in sorted(sums)],
        total_gpu_us_milli=total_us_milli,
        total_gpu_hours=gpu_hours_text(total_us_milli),
        total_cost_micro=sum(each.cost_micro for each in sums.values()),
    )


def _gpu_quota(row: Quota) -> GpuQuotaView:
    limit = None if row.gpu_limit_milli is None else row.gpu_limit_milli // 1000
    return GpuQuotaView(model=row.model, limit=limit, used_milli=row.gpu_used_milli)


def _over(rows: Sequence[Quota], everything: Quota) -> list[str]:
    over = [
        f"gpus:{row.model}"
        for row in rows
        if row.gpu_limit_milli is not None and row.gpu_used_milli > row.gpu_limit_milli
    ]
    if everything.most_queued is not None and everything.queued_used > everything.most_queued:
        over.append("queued")
    if everything.most_running is not None and everything.running_used > everything.most_running:
        over.append("running")
    return over


def _usage_row(groups: Sequence[Group], key: Key, found: Sum) -> UsageRow:
    values = {
        FIELDS[group]: (EPOCH + timedelta(days=int(value))).date().isoformat() if group == "day" else value
        for group, value in zip(groups, key, strict=True)
    }
    return UsageRow.model_validate(
        {
            **values,
            "gpu_us_milli": found.gpu_us_milli,
            "gpu_hours": gpu_hours_text(found.gpu_us_milli),
            "cost_micro": found.cost_micro,
            "entries": found.entries,
        }
    )
