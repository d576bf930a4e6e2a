"""Tenants."""

from sqlmodel import Field

from store.base import Row, big


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
