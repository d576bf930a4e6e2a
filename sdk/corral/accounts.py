"""Tenants, quotas, prices and usage: what admins send and everyone reads."""

from typing import Literal

from corral.contract import Name, Request, View
from corral.jobs import ImageName, IsolationLevel, ModelName, Priority
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


class GpuQuota(Request):
    """Most GPUs at once, of a model, or of all models together (`*`). None is no limit of its own."""

    model: ModelName | Literal["*"]
    limit: int | None = Field(default=None, ge=0, le=1_000_000)


class QuotaSpec(Request):
    """A tenant's quota, whole: what is not named is at its default."""

    gpus: list[GpuQuota] = Field(default=[], max_length=256)
    """A model without a row is bounded by `*` alone; without a `*` row nothing is granted."""
    most_queued: int = Field(default=1000, ge=0, le=10_000_000)
    most_running: int = Field(default=100, ge=0, le=1_000_000)
    longest_time_limit: Duration = Field(default=7 * 86400 * 10**6, ge=1_000_000)
    highest_priority: Priority = "normal"
    isolation_levels: list[IsolationLevel] = Field(default=["container", "gvisor", "kata"], max_length=4)
    images: list[ImageName] | None = Field(default=None, max_length=1000)
    """Allowed images; None allows all of the catalogue."""


class GpuQuotaView(View):
    model: str
    limit: int | None
    used_milli: int
    """Thousandths of a GPU in use now, of this tenant and those below it."""


class QuotaView(View):
    tenant_id: str
    gpus: list[GpuQuotaView]
    most_queued: int
    queued: int
    most_running: int
    running: int
    longest_time_limit: Duration
    highest_priority: Priority
    isolation_levels: list[IsolationLevel]
    images: list[str] | None
    over: list[str] = []
    """What is used beyond a bound that was lowered under its use; nothing new starts there."""


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
