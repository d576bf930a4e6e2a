"""Usage, the ledger's entries, and adjustments."""

from typing import Literal

from corral.contract import Id, Line, Request, View
from pydantic import Field, field_validator

GROUPS = ("tenant", "member", "key", "model", "image", "node", "cause", "job", "hour", "day", "week", "month")
"""What usage can be grouped by, beside `label:NAME`."""
UsageFormat = Literal["json", "csv", "focus"]
AMOUNT_MAX = 10**15


class UsageSum(View):
    """Use, added up; exact."""

    gpu_us_milli: int
    """Microseconds times thousandths of a GPU."""
    gpu_hours: str
    """The same in GPU-hours, as a decimal with every digit."""
    cost_micro: int
    entries: int


class UsageRow(UsageSum):
    """Use of what stands beside it. A field that was not grouped by is null, and so is one that an entry lacks."""

    tenant_id: str | None = None
    member_id: str | None = None
    key_id: str | None = None
    job_id: str | None = None
    node_id: str | None = None
    model: str | None = None
    image: str | None = None
    cause: str | None = None
    hour: str | None = None
    """Of the time zone that was asked for, with its offset: `2026-10-25T02:00+01:00`."""
    day: str | None = None
    """`2026-10-25`."""
    week: str | None = None
    """ISO's: `2026-W43`."""
    month: str | None = None
    """`2026-10`."""
    labels: dict[str, str | None] = {}
    with_below: UsageSum | None = None
    """By tenant: what it and those below it used together. The row's own numbers are the tenant's own alone."""


class UsageView(View):
    """An answer of the ledger. Its rows add up to the total, exactly."""

    since: int | None
    until: int | None
    tz: str
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
    job_id: str | None
    attempt_id: str | None
    """None for an adjustment."""
    gpu_uuid: str
    model: str
    cause: str
    kind: Literal["usage", "correction", "adjustment"]
    from_us: int
    until_us: int
    duration_us: int
    share_milli: int
    price_micro_per_gpu_hour: int
    rate_milli: int
    """What part of the price its cause pays, per mille."""
    cost_micro: int
    posted_at: int
    reason: str | None
    """Of an adjustment."""
    by_key_id: str | None
    signing_key_id: str | None
    signature: str | None
    prev_hash: str
    hash: str


class AdjustmentSpec(Request):
    """A credit (a negative amount) or a debit, in millionths of the currency."""

    tenant_id: Id
    amount_micro: int = Field(ge=-AMOUNT_MAX, le=AMOUNT_MAX)
    reason: Line
    job_id: Id | None = None
    """The job that it is about, if it is about one."""

    @field_validator("amount_micro")
    @classmethod
    def _some(cls, amount: int) -> int:
        if amount == 0:
            raise ValueError("an adjustment of nothing changes nothing")
        return amount


class LedgerCheck(View):
    """What the verifier found in a piece of a tenant's chain; the rest follows on the next page."""

    tenant_id: str
    is_sound: bool
    entries: int
    """Up to which entry it was looked at."""
    first_bad_seq: int | None
    problem: str
    seals: int = 0
    """With how many seals this piece was compared."""


class SigningKeyView(View):
    """A public key of the server."""

    key_id: str
    algorithm: Literal["ed25519"] = "ed25519"
    public_key: str
    """PEM."""
    signs: bool
    """Whether new documents are signed with it; an earlier one still proves what it signed."""


class SigningKeys(View):
    """All public keys by which documents of this server may be checked."""

    keys: list[SigningKeyView]
