"""Who changed what."""

from sqlalchemy import Index
from sqlmodel import Field

from store.base import Row, big


class AuditEntry(Row, table=True):
    """A change that somebody made. Never changed, never deleted."""

    __tablename__ = "audit_entry"
    __table_args__ = (Index("uq_audit_entry_chain", "chain", "seq", unique=True),)

    id: str = Field(primary_key=True)
    """Made of `at_us`, so that ids sort by time."""
    chain: str
    """The tenant whose chain it is in; `platform` for what concerns no one tenant."""
    seq: int = big()
    at_us: int = big()
    actor: str
    """A key, a node or a part of the system; empty for nobody."""
    member_id: str | None = None
    """Whose key it was, if a person's."""
    role: str
    what: str
    """`METHOD /route/{template}`, or the name of what the system did."""
    path: str
    """With the ids in it."""
    target: str
    """What was changed or made."""
    status: int
    request_id: str
    address: str
    """Where the request came from; empty in a tenant's chain if it was the platform's staff."""
    changes: str
    """What was asked for, as JSON: bounded, and without secrets."""
    prev_hash: str
    hash: str


class AuditChain(Row, table=True):
    """How long a chain is and the hash of its last entry, kept beside it so that a cut end is seen."""

    __tablename__ = "audit_chain"

    chain: str = Field(primary_key=True)
    length: int = big(default=0)
    head: str = ""
