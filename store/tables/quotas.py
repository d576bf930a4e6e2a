"""Quotas, and what is asked for and granted beyond them."""

from typing import Any

from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field

from store.base import Row, big, json

ZERO: Any = {"server_default": "0"}


class Quota(Row, table=True):
    """A tenant's bounds and its use, side by side: one row for each model, and `*` for all of them.

    Use counts the tenant's own and that of all below it. The columns after `grants_until_us` count in the row `*` only.
    """

    __tablename__ = "quota"
    __table_args__ = (
        CheckConstraint("gpu_used_milli >= 0", name="gpu_used_not_negative"),
        CheckConstraint("running_used >= 0", name="running_used_not_negative"),
        CheckConstraint("queued_used >= 0", name="queued_used_not_negative"),
    )

    tenant_id: str = Field(primary_key=True, foreign_key="tenant.id")
    model: str = Field(primary_key=True)
    is_set: bool = Field(default=False, sa_column_kwargs=ZERO)
    """Whether an admin set this row; others are there for what they count."""
    gpu_limit_milli: int | None = big(default=None)
    """This and the next three as an admin set them, without grants."""
    gpu_guaranteed_milli: int = big(default=0, sa_column_kwargs=ZERO)
    gpu_borrowable_milli: int | None = big(default=None)
    gpu_lendable_milli: int | None = big(default=None)
    gpu_ceiling_milli: int | None = big(default=None)
    """What use may reach now, grants in force counted; None where only others bound it."""
    gpu_promised_milli: int = big(default=0, sa_column_kwargs=ZERO)
    """What is guaranteed now, grants in force counted."""
    gpu_kept_milli: int = big(default=0, sa_column_kwargs=ZERO)
    """The part of it that is not lent."""
    gpu_used_milli: int = big(default=0)
    gpu_reserved_milli: int = big(default=0, sa_column_kwargs=ZERO)
    """What is kept for tenants below and not used by them."""
    grants_until_us: int | None = big(default=None)
    """When the first of the grants counted here ends: from then on nothing is taken until they are counted again."""
    version: int = big(default=0, sa_column_kwargs=ZERO)
    """Grows whenever the quota is set."""
    most_queued: int | None = big(default=None)
    queued_used: int = big(default=0)
    """Queued and held jobs."""
    most_running: int | None = big(default=None)
    running_used: int = big(default=0)
    served_us: int = big(default=0)
    """When something of the tenant, or of one below it, was started last: who waits longer goes first among equals."""
    longest_time_limit_us: int | None = big(default=None)
    highest_priority: int | None = None
    isolation_levels: list[str] | None = json(default=None)
    images: list[str] | None = json(default=None)


class QuotaRequest(Row, table=True):
    """A tenant's wish for more, what became of it, and, once granted, the grant itself."""

    __tablename__ = "quota_request"
    __table_args__ = (
        Index("ix_quota_request_tenant", "tenant_id", "created_us"),
        Index("ix_quota_request_state", "state", "until_us"),
    )

    id: str = Field(primary_key=True)
    tenant_id: str = Field(foreign_key="tenant.id")
    model: str
    limit_milli: int = big()
    """How much more at once: as asked, and from the grant on as granted."""
    guaranteed_milli: int = big()
    """How much more is guaranteed; the same."""
    reason: str
    state: str = "asked"
    """`asked`, `withdrawn`, `refused`, `granted` (in force), `ended`."""
    created_us: int = big()
    created_by: str
    """The key that asked."""
    until_us: int = big()
    """When it ends: as asked, and from the grant on as granted."""
    decided_us: int | None = big(default=None)
    decided_by: str | None = None
    answer: str = ""
    """What the admin said to it."""
    ended_us: int | None = big(default=None)
