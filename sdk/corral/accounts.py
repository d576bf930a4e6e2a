"""Tenants, prices and usage: what admins send and everyone reads."""

from typing import Literal

from corral.contract import Name, Request, View
from corral.jobs import IsolationLevel
from corral.quantities import Duration
from pydantic import Field


class TenantSpec(Request):
    """A tenant to be made. It starts with no GPU until a quota grants some."""

    name: Name
    parent_id: str | None = None
    weight: int = Field(default=1, ge=1, le=1_000_000)
    default_isolation: IsolationLevel = "container"
    default_time_limit: Duration = Field(default=3_600_000_000, ge=1_000_000)


class TenantView(View):
    id: str
    name: str
    parent_id: str | None
    weight: int
    state: Literal["active", "suspended"]
    default_isolation: IsolationLevel
    default_time_limit: Duration


class UsageRow(View):
    """Use, summed over whatever the question grouped by; exact."""

    tenant_id: str | None = None
    job_id: str | None = None
    model: str | None = None
    day: str | None = None
    """UTC, YYYY-MM-DD."""
    cause: str | None = None
    gpu_us_milli: int
    """Microseconds times thousandths of a GPU."""
    gpu_hours: str
    """The same in GPU-hours, as a decimal with every digit."""
    cost_micro: int
    entries: int


class UsageView(View):
    """An answer of the ledger."""

    since: int | None
    until: int | None
    group_by: list[str]
    rows: list[UsageRow]
    total_gpu_us_milli: int
    total_gpu_hours: str
    total_cost_micro: int


class LedgerEntryView(View):
    """A line of the ledger, as it was posted."""

    id: str
    seq: int
    """Its place in the tenant's chain, from 1."""
    tenant_id: str
    job_id: str
    attempt_id: str
    gpu_uuid: str
    model: str
    cause: str
    kind: Literal["usage", "correction"]
    from_us: int
    until_us: int
    duration_us: int
    share_milli: int
    price_micro_per_gpu_hour: int
    cost_micro: int
    posted_at: int
    prev_hash: str
    hash: str


class LedgerCheck(View):
    """What the verifier found in a tenant's chain."""

    tenant_id: str
    is_sound: bool
    entries: int
    first_bad_seq: int | None
    problem: str
