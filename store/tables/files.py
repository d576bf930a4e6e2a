"""Inputs and artifacts."""

from sqlalchemy import Index
from sqlmodel import Field

from store.base import Row, big


class StoredInput(Row, table=True):
    """An input, kept by (tenant, hash), so that nobody learns what another has."""

    __tablename__ = "input"

    tenant_id: str = Field(primary_key=True, foreign_key="tenant.id")
    sha256: str = Field(primary_key=True)
    size_bytes: int = big()
    created_us: int = big()


class Artifact(Row, table=True):
    """A file that an attempt left."""

    __tablename__ = "artifact"
    __table_args__ = (Index("uq_artifact_attempt_name", "attempt_id", "name", unique=True),)

    id: str = Field(primary_key=True)
    tenant_id: str = Field(foreign_key="tenant.id")
    job_id: str = Field(foreign_key="job.id", index=True)
    attempt_id: str = Field(foreign_key="attempt.id")
    name: str
    size_bytes: int = big()
    sha256: str
    created_us: int = big()
