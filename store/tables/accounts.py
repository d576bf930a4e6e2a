"""Tenants and their quotas."""

from sqlalchemy import CheckConstraint
from sqlmodel import Field

from store.base import Row, big, json


class Tenant(Row, table=True):
    """An organisation or a team below it."""

    __tablename__ = "tenant"

    id: str = Field(primary_key=True)
    name: str = Field(unique=True)
    parent_id: str | None = Field(default=None, foreign_key="tenant.id", index=True)
    weight: int = 1
    state: str = "active"
    default_isolation: str = "container"
    default_time_limit_us: int = big(default=3_600_000_000)
    chain_length: int = big(default=0)
    """Entries in its ledger chain."""
    chain_head: str = ""
    """Hash of the last entry."""
    created_us: int = big()


class Quota(Row, table=True):
    """A tenant's bound and its use, side by side: one row for each model, and `*` for all of them.

    The columns after `gpu_used_milli` count in the row `*` only.
    """

    __tablename__ = "quota"
    __table_args__ = (
        CheckConstraint("gpu_used_milli >= 0", name="gpu_used_not_negative"),
        CheckConstraint("running_used >= 0", name="running_used_not_negative"),
        CheckConstraint("queued_used >= 0", name="queued_used_not_negative"),
    )

    tenant_id: str = Field(primary_key=True, foreign_key="tenant.id")
    model: str = Field(primary_key=True)
    gpu_limit_milli: int | None = big(default=None)
    gpu_used_milli: int = big(default=0)
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
