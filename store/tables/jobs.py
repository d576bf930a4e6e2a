"""Jobs and their attempts."""

from typing import Any

from sqlalchemy import Index, text
from sqlmodel import Field

from store.base import Row, big, json

LIVE = text("state != 'ended'")


class Job(Row, table=True):
    """What a tenant asked for."""

    __tablename__ = "job"
    __table_args__ = (Index("ix_job_queue", "state", "priority", "submitted_us"),)

    id: str = Field(primary_key=True)
    tenant_id: str = Field(foreign_key="tenant.id", index=True)
    key_id: str | None = Field(default=None, index=True)
    """The key that submitted it."""
    member_id: str | None = None
    """Whose key that was."""
    name: str | None = None
    state: str
    spec: dict[str, Any] = json()
    """As sent, normalised."""
    priority: int
    image_name: str
    image_kind: str
    image_reference: str
    """As the catalogue had it at submission: a job runs what was admitted then."""
    min_cuda: str | None = None
    least_level: str
    time_limit_us: int = big()
    grace_us: int = big()
    max_unreachable_us: int | None = big(default=None)
    gpus: int
    models: list[str] = json(default_factory=list)
    gpu_memory_min_bytes: int = big(default=0)
    cpus_milli: int = big()
    memory_bytes: int = big()
    shm_bytes: int = big()
    scratch_bytes: int = big()
    output_bytes: int = big()
    retry_limit: int = 0
    retry_on: list[str] = json(default_factory=list)
    fence: int = big(default=0)
    """Of the latest assignment."""
    tries_by_tenant: int = 0
    tries_by_platform: int = 0
    not_before_us: int = big(default=0)
    avoid_nodes: list[str] = json(default_factory=list)
    cancel_requested: bool = False
    reason_code: str | None = None
    reason_text: str | None = None
    reason_numbers: dict[str, int] | None = json(default=None)
    outcome: str | None = None
    exit_code: int | None = None
    error: str | None = None
    submitted_us: int = big()
    started_us: int | None = big(default=None)
    ended_us: int | None = big(default=None)
    array_id: str | None = Field(default=None, index=True)
    array_index: int | None = None
    waits_for: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Dependencies that are not met yet; while there are any, the scheduler does not see the job."""
    template_name: str | None = None
    template_version: int | None = None


class JobInput(Row, table=True):
    """An input that a job names."""

    __tablename__ = "job_input"

    job_id: str = Field(primary_key=True, foreign_key="job.id")
    position: int = Field(primary_key=True)
    sha256: str


class Attempt(Row, table=True):
    """One try at running a job. At most one of a job is live (P1)."""

    __tablename__ = "attempt"
    __table_args__ = (
        Index("uq_attempt_live", "job_id", unique=True, sqlite_where=LIVE, postgresql_where=LIVE),
        Index("uq_attempt_job_fence", "job_id", "fence", unique=True),
        Index("ix_attempt_node_state", "node_id", "state"),
    )

    id: str = Field(primary_key=True)
    job_id: str = Field(foreign_key="job.id", index=True)
    tenant_id: str = Field(foreign_key="tenant.id")
    node_id: str = Field(foreign_key="node.id")
    number: int
    fence: int = big()
    state: str = "assigned"
    level: str
    outcome: str | None = None
    exit_code: int | None = None
    error: str | None = None
    stop_reason: str | None = None
    assigned_us: int = big()
    claimed_us: int | None = big(default=None)
    started_us: int | None = big(default=None)
    stop_ordered_us: int | None = big(default=None)
    ended_us: int | None = big(default=None)
    prepare_us: int | None = big(default=None)
    run_us: int | None = big(default=None)
    stop_us: int | None = big(default=None)
    cpus_milli: int = big()
    memory_bytes: int = big()
    scratch_bytes: int = big()
    """Held on the node: scratch and output together."""
    pull: dict[str, Any] | None = json(default=None)
    """How far the pull of its image has come, while it is prepared."""
    isolation: dict[str, Any] | None = json(default=None)
    skipped: list[dict[str, str]] = json(default_factory=list)
    log_bytes: int = big(default=0)
