"""What was sealed of the chains, day by day."""

from sqlalchemy import UniqueConstraint
from sqlmodel import Field

from store.base import Row, big


class Seal(Row, table=True):
    """The heads of all chains at a moment, under one signature; a copy of it is kept outside the database."""

    __tablename__ = "seal"
    __table_args__ = (UniqueConstraint("until_us", name="uq_seal_until_us"),)

    number: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    """From 1, without gaps."""
    until_us: int = big()
    """It covers what was written before this moment."""
    document: str
    """What was signed, as canonical JSON."""
    signature: str
    stored_us: int | None = big(default=None)
    """When its copy outside was written; None for not yet."""


class SealHead(Row, table=True):
    """A chain's head in a seal."""

    __tablename__ = "seal_head"

    number: int = Field(primary_key=True, foreign_key="seal.number")
    chain: str = Field(primary_key=True)
    """What is chained, and whose: `ledger:ten_…`."""
    count: int = big()
    hash: str
    links: str
    """SHA-256 over the hashes of the entries that came since the seal before."""
