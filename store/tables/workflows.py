"""What ties jobs together: arrays, dependencies, and the templates that a tenant saves."""

from typing import Any

from sqlalchemy import CheckConstraint
from sqlmodel import Field

from store.base import Row, big, json


class JobArray(Row, table=True):
    """Many equal jobs that were asked for as one. Its counters are kept beside the bound that they obey."""

    __tablename__ = "job_array"
    __table_args__ = (
        CheckConstraint(
            "running_used >= 0 AND (most_running IS NULL OR running_used <= most_running)", name="running_within_bound"
        ),
        CheckConstraint("unfinished >= 0", name="unfinished_not_negative"),
    )

    id: str = Field(primary_key=True)
    tenant_id: str = Field(foreign_key="tenant.id", index=True)
    count: int
    most_running: int | None = None
    running_used: int = 0
    unfinished: int
    """Jobs of it that are not over."""
    unsuccessful: int = 0
    """Jobs of it that failed or were cancelled."""
    submitted_us: int = big()


class JobDependency(Row, table=True):
    """A job waits for another, or for all of an array, to end as it says."""

    __tablename__ = "job_dependency"

    job_id: str = Field(primary_key=True, foreign_key="job.id")
    after_id: str = Field(primary_key=True, index=True)
    """A job's id, or an array's."""
    condition: str
    """`success`, `failure` or `any`."""
    is_open: bool = True
    """Whether it is neither met nor known to be out of reach."""


class JobTemplate(Row, table=True):
    """A part of a job that a tenant keeps under a name."""

    __tablename__ = "job_template"

    tenant_id: str = Field(primary_key=True, foreign_key="tenant.id")
    name: str = Field(primary_key=True)
    version: int
    """Grows with each change; it never comes back, even when the template is deleted and made again."""
    fields: dict[str, Any] = json()
    is_deleted: bool = False
    changed_us: int = big()
