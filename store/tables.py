"""The tables. Times are microseconds since the epoch, UTC; money is micro-units; shares are thousandths of a GPU."""

from typing import Any

from sqlalchemy import CheckConstraint, Index, LargeBinary, text
from sqlmodel import Field

from store.base import EVENT_ID, Row, big, json

LIVE = text("state != 'ended'")
OPEN_WHOLE = text("until_us IS NULL AND share_milli = 1000")


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


class ApiKey(Row, table=True):
    """A credential of a person or a program; only the hash of its secret is kept."""

    __tablename__ = "api_key"

    id: str = Field(primary_key=True)
    tenant_id: str | None = Field(default=None, foreign_key="tenant.id", index=True)
    """None for a platform admin's key."""
    name: str
    prefix: str = Field(unique=True)
    secret_sha256: str
    role: str
    created_us: int = big()
    expires_us: int | None = big(default=None)
    revoked_us: int | None = big(default=None)
    last_used_us: int | None = big(default=None)


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


class Node(Row, table=True):
    """A machine with a worker."""

    __tablename__ = "node"
    __table_args__ = (
        CheckConstraint("cpus_milli_used >= 0 AND memory_bytes_used >= 0 AND scratch_bytes_used >= 0", name="used"),
    )

    id: str = Field(primary_key=True)
    name: str = Field(unique=True)
    state: str = "ready"
    """`ready`, `draining`, `lost`."""
    is_reachable: bool = True
    token_sha256: str = Field(unique=True)
    boot_id: str = ""
    agent_version: str = ""
    kernel: str = ""
    driver_version: str | None = None
    cuda_driver: str | None = None
    levels: list[str] = json(default_factory=list)
    level_reports: list[dict[str, Any]] = json(default_factory=list)
    labels: dict[str, str] = json(default_factory=dict)
    problems: list[str] = json(default_factory=list)
    beat: int = big(default=0)
    last_beat_us: int | None = big(default=None)
    cpus_milli: int = big(default=0)
    memory_bytes: int = big(default=0)
    scratch_bytes: int = big(default=0)
    cpus_milli_used: int = big(default=0)
    memory_bytes_used: int = big(default=0)
    scratch_bytes_used: int = big(default=0)
    created_us: int = big()


class JoinToken(Row, table=True):
    """Lets one node join, once."""

    __tablename__ = "join_token"

    id: str = Field(primary_key=True)
    secret_sha256: str = Field(unique=True)
    node_name: str
    created_us: int = big()
    expires_us: int = big()
    used_us: int | None = big(default=None)


class Gpu(Row, table=True):
    """A device of a node. It has at most one holder (P2)."""

    __tablename__ = "gpu"
    __table_args__ = (CheckConstraint("used_milli >= 0 AND used_milli <= 1000", name="used_at_most_whole"),)

    id: str = Field(primary_key=True)
    node_id: str = Field(foreign_key="node.id", index=True)
    uuid: str = Field(unique=True)
    model: str
    memory_bytes: int = big()
    is_simulated: bool
    health: str = "ok"
    health_reason: str = ""
    state: str = "dirty"
    """`clean`, `dirty` (not seen clean since its last holder), `absent` (its node no longer shows it)."""
    state_reason: str = ""
    generation: int = big(default=0)
    """Grows whenever it is taken or let go, so that a late finding about an earlier holder changes nothing."""
    used_milli: int = 0


class Image(Row, table=True):
    """A catalogue entry."""

    __tablename__ = "image"

    name: str = Field(primary_key=True)
    kind: str
    reference: str
    min_cuda: str | None = None
    description: str | None = None
    state: str = "admitted"
    created_us: int = big()


class Job(Row, table=True):
    """What a tenant asked for."""

    __tablename__ = "job"
    __table_args__ = (Index("ix_job_queue", "state", "priority", "submitted_us"),)

    id: str = Field(primary_key=True)
    tenant_id: str = Field(foreign_key="tenant.id", index=True)
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
    isolation: dict[str, Any] | None = json(default=None)
    skipped: list[dict[str, str]] = json(default_factory=list)
    log_bytes: int = big(default=0)


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
    job_id: str = Field(foreign_key="job.id", index=True)
    attempt_id: str = Field(foreign_key="attempt.id")
    allocation_id: str = Field(foreign_key="allocation.id")
    gpu_uuid: str
    model: str
    cause: str
    kind: str
    """`usage`, or `correction` (which may be negative)."""
    from_us: int = big()
    until_us: int = big()
    duration_us: int = big()
    share_milli: int
    price_micro_per_gpu_hour: int = big()
    cost_micro: int = big()
    posted_us: int = big()
    prev_hash: str
    hash: str


class Price(Row, table=True):
    """What a GPU-hour of a model costs."""

    __tablename__ = "price"

    model: str = Field(primary_key=True)
    micro_per_gpu_hour: int = big()


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


class Event(Row, table=True):
    """What happened, for people and for replays: to a job, a node, a device or a quota."""

    __tablename__ = "event"

    id: int | None = Field(default=None, primary_key=True, sa_type=EVENT_ID)
    at_us: int = big()
    what: str
    tenant_id: str | None = None
    job_id: str | None = Field(default=None, index=True)
    attempt_id: str | None = None
    node_id: str | None = Field(default=None, index=True)
    gpu_id: str | None = None
    fence: int | None = big(default=None)
    text: str = ""
    data: dict[str, Any] = json(default_factory=dict)


class Idempotency(Row, table=True):
    """The answer to a request that may be sent again."""

    __tablename__ = "idempotency"

    caller: str = Field(primary_key=True)
    """Tenant or `admin`: keys of two tenants never meet."""
    key: str = Field(primary_key=True)
    route: str
    body_sha256: str
    status: int
    answer: bytes = Field(sa_type=LargeBinary)
    created_us: int = big()


class Leader(Row, table=True):
    """Who leads the control plane. The lease runs on the observers' own clocks: they watch `beat`."""

    __tablename__ = "leader"

    name: str = Field(primary_key=True)
    holder: str = ""
    epoch: int = big(default=0)
    beat: int = big(default=0)
