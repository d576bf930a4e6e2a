"""Tenants, prices and the ledger, as they are shown."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from corral.accounts import (
    LedgerEntryView,
    TenantView,
    UsageRow,
    UsageView,
)
from corral.quantities import duration_text

from domain.money import gpu_hours_text
from store.tables import LedgerEntry, Tenant
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
