"""Quotas: what a tenant may use, what it asks for beyond that, and what a change would do."""

from typing import Any, Literal

from corral.contract import Id, Line, Request, View
from corral.jobs import ImageName, IsolationLevel, ModelName, Priority
from corral.quantities import Duration
from pydantic import Field

GPUS_MAX = 1_000_000
LATEST_US = 253_402_300_799_000_000
"""The end of the year 9999."""
RequestState = Literal["asked", "withdrawn", "refused", "granted", "ended"]
"""`granted` is in force until its end, and `ended` from then on."""


class GpuQuota(Request):
    """GPUs at once, of a model, or of all models together (`*`)."""

    model: ModelName | Literal["*"]
    limit: int | None = Field(default=None, ge=0, le=GPUS_MAX)
    """Most at once; None is no limit of its own."""
    guaranteed: int = Field(default=0, ge=0, le=GPUS_MAX)
    """Its own share of what the tenant above it may use."""
    borrowable: int | None = Field(default=None, ge=0, le=GPUS_MAX)
    """Most beyond its guarantee; None is as many as its limit allows."""
    lendable: int | None = Field(default=None, ge=0, le=GPUS_MAX)
    """How many of its guaranteed GPUs others may use while it does not; None is all of them."""


class QuotaSpec(Request):
    """A tenant's quota, whole. What is not named is inherited: what the tenants above it allow, it may.

    A tenant at the top inherits the platform's defaults: no GPU, 1000 queued and 100 running jobs, a time limit of 7
    days, the priority `normal`, the levels `container`, `gvisor` and `kata`, and all images.
    """

    gpus: list[GpuQuota] = Field(default=[], max_length=256)
    """A model without a row is bounded by `*` alone."""
    most_queued: int | None = Field(default=None, ge=0, le=10_000_000)
    most_running: int | None = Field(default=None, ge=0, le=1_000_000)
    longest_time_limit: Duration | None = Field(default=None, ge=1_000_000)
    highest_priority: Priority | None = None
    isolation_levels: list[IsolationLevel] | None = Field(default=None, max_length=4)
    images: list[ImageName] | None = Field(default=None, max_length=1000)
    """Allowed images."""
    gpu_hours_per_month: int | None = Field(default=None, ge=0, le=10**9)
    """Most GPU-hours in a calendar month, UTC; what a job can use is held when it starts."""
    money_micro_per_month: int | None = Field(default=None, ge=0, le=10**18)
    """The same in millionths of the currency."""


class GpuQuotaView(View):
    """A row of a quota as it applies now, grants in force counted."""

    model: str
    limit: int | None
    """The least of what it and those above it may use; None is no limit."""
    steps_up: int = 0
    """Whose limit that is: 0 its own, 1 that of the tenant above it, and so on."""
    guaranteed: int = 0
    borrowable: int | None = None
    lendable: int | None = None
    used_milli: int
    """Thousandths of a GPU in use now, of this tenant and those below it."""
    reserved_milli: int = 0
    """Thousandths of a GPU that are kept for those below it and not used by them."""


class QuotaRequestView(View):
    """A wish and what became of it; once granted, amounts and end are as granted."""

    id: str
    tenant_id: str
    model: str
    limit: int
    guaranteed: int
    reason: str
    state: RequestState
    created_at: int
    until: int
    decided_at: int | None
    answer: str
    """What the admin said to it."""
    ended_at: int | None


class QuotaView(View):
    """What a tenant may use, and what it uses. Of each rule, the narrowest of its own and of those above it applies."""

    tenant_id: str
    version: int = 0
    """Grows whenever the quota is set; also the answer's ETag."""
    gpus: list[GpuQuotaView]
    most_queued: int
    queued: int
    most_running: int
    running: int
    longest_time_limit: Duration
    highest_priority: Priority
    isolation_levels: list[IsolationLevel]
    images: list[str] | None
    gpu_hours_per_month: int | None = None
    """None is no bound; what is used of it is in `GET /v1/budget`."""
    money_micro_per_month: int | None = None
    steps_up: dict[str, int] = {}
    """Where each of these rules comes from: 0 the tenant's own quota, 1 that of the tenant above it, and so on."""
    own: dict[str, Any] = {}
    """What is set for the tenant itself, as a QuotaSpec."""
    grants: list[QuotaRequestView] = []
    """What is granted to the tenant beyond that for a time, and counted above."""
    over: list[str] = []
    """What is used beyond a bound that was lowered under its use; nothing new starts there."""


class QuotaAsk(Request):
    """A wish for more than the quota grants, for a time."""

    model: ModelName | Literal["*"]
    limit: int = Field(default=0, ge=0, le=GPUS_MAX)
    """So many more at once. What is granted of a model is granted of `*` too."""
    guaranteed: int = Field(default=0, ge=0, le=GPUS_MAX)
    """So many more guaranteed."""
    reason: Line
    until: int = Field(ge=0, le=LATEST_US)
    """When it ends, in microseconds since the epoch."""


class QuotaGrantSpec(Request):
    """An admin's yes; what is not named is granted as it was asked for."""

    limit: int | None = Field(default=None, ge=0, le=GPUS_MAX)
    guaranteed: int | None = Field(default=None, ge=0, le=GPUS_MAX)
    until: int | None = Field(default=None, ge=0, le=LATEST_US)
    answer: Line | None = None


class QuotaRefusal(Request):
    """An admin's no."""

    reason: Line


class QuotaPreviewSpec(Request):
    """A quota that might be set."""

    tenant_id: Id
    quota: QuotaSpec


class OverRow(View):
    """What is used beyond a bound."""

    row: str
    """A model or `*`, counted in thousandths of a GPU; `running` or `queued`, counted in jobs."""
    limit: int
    used: int
    over: int


class RunningOver(View):
    """A running job that would be beyond the bound: the latest ones are."""

    job_id: str
    tenant_id: str
    gpus: int
    model: str | None
    started_at: int
    """When its devices were assigned."""


class PreviewedJob(View):
    """A queued job, and why it would wait."""

    job_id: str
    tenant_id: str
    code: str | None = None
    text: str | None = None


class QuotaPreview(View):
    """What a change of a quota would do now; nothing of it is stored."""

    tenant_id: str
    over: list[OverRow]
    running: list[RunningOver]
    starts: list[PreviewedJob]
    """Would start at once with the change, and do not without it."""
    waits: list[PreviewedJob]
    """Would start at once without the change, and wait with it."""
    keeps_waiting: list[PreviewedJob]
    """Of the tenant and those below it: wait with the change as without it."""
    left_out: int = 0
    """How many jobs are not listed, since each list holds at most 200."""
