"""What tenants keep secret, sealed."""

from sqlalchemy import LargeBinary
from sqlmodel import Field

from store.base import Row, big


class Secret(Row, table=True):
    """A value that jobs of its tenant may name; only the newest version is kept, and only sealed."""

    __tablename__ = "secret"

    tenant_id: str = Field(primary_key=True, foreign_key="tenant.id")
    name: str = Field(primary_key=True)
    version: int = big()
    """Grows with each value; what is sealed is bound to it."""
    wrapped_key: str
    ciphertext: bytes = Field(sa_type=LargeBinary)
    size_bytes: int = big()
    created_us: int = big()
    """Of this version."""
    last_used_us: int | None = big(default=None)
    """When a node was last given it for a job."""
