"""What was used, and what it costs."""

from sqlalchemy import CheckConstraint, Index, UniqueConstraint, text
from sqlmodel import Field

from store.base import Row, big, json

OPEN_WHOLE = text("until_us IS NULL AND share_milli = 1000")


class Allocation(Row, table=True):
    """An attempt's hold on a device."""

    __tablename__ = "allocation"
    __table_args__ = (
        Index("uq_allocation_open_whole", "gpu_id", unique=True, sqlite_where=OPEN_WHOLE, postgresql_where=OPEN_WHOLE),
        Index("ix_allocation_open", "until_us"),
        CheckConstraint("until_us IS NULL OR until_us >= from_us", name="not_negative"),
        CheckConstraint("share_milli > 0 AND share_milli <= 1000", name="share"),
    )

    id: str = Field(primary_key=True)
    attempt_id: str = Field(foreign_key="attempt.id", index=True)
    gpu_id: str = Field(foreign_key="gpu.id")
    tenant_id: str = Field(foreign_key="tenant.id")
    model: str
    share_milli: int
    price_micro_per_gpu_hour: int = big()
    """As it stood when the device was assigned."""
    rates: dict[str, int] | None = json(default=None)
    """Of that price, per mille for each cause; what is not named pays all of it."""
    from_us: int = big()
    until_us: int | None = big(default=None)
    posted_until_us: int = big()
    """Entries cover the allocation up to here."""


class LedgerEntry(Row, table=True):
    """A line of a tenant's ledger. Never changed, never deleted."""

    __tablename__ = "ledger_entry"
    __table_args__ = (
        Index("uq_ledger_entry_chain", "tenant_id", "seq", unique=True),
        Index("ix_ledger_entry_tenant_from", "tenant_id", "from_us"),
        Index("ix_ledger_entry_allocation", "allocation_id"),
    )

    id: str = Field(primary_key=True)
    tenant_id: str = Field(foreign_key="tenant.id")
    seq: int = big()
    job_id: str | None = Field(default=None, foreign_key="job.id", index=True)
    """None, like attempt and allocation, for an adjustment that is about none."""
    attempt_id: str | None = Field(default=None, foreign_key="attempt.id")
    allocation_id: str | None = Field(default=None, foreign_key="allocation.id")
    gpu_uuid: str = ""
    model: str = ""
    cause: str
    kind: str
    """`usage`, `correction` (which may be negative), or `adjustment` (money alone)."""
    from_us: int = big()
    until_us: int = big()
    duration_us: int = big()
    share_milli: int
    price_micro_per_gpu_hour: int = big()
    rate_milli: int | None = None
    """What part of the price the cause pays. Older entries do not say: their price is the one that they pay."""
    cost_micro: int = big()
    posted_us: int = big()
    reason: str | None = None
    """Of an adjustment, in an admin's words; with whose key it was made, and which key of the server signed it."""
    by_key_id: str | None = None
    signing_key_id: str | None = None
    signature: str | None = None
    prev_hash: str
    hash: str


class Price(Row, table=True):
    """What a GPU-hour of a model costs, from a moment on. Never changed once it is in force."""

    __tablename__ = "price"
    __table_args__ = (UniqueConstraint("model", "priority", "valid_from_us", name="uq_price_model_priority_from"),)

    id: str = Field(primary_key=True)
    model: str
    priority: int
    """The class of jobs that it is for; `ANY_PRIORITY` for all without their own."""
    valid_from_us: int = big()
    micro_per_gpu_hour: int = big()
    rates: dict[str, int] = json(default_factory=dict)
    """Per mille for each cause; what is not named pays all of it."""
    created_us: int = big()
