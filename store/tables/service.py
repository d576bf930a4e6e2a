"""What the control plane keeps for its own working."""

from typing import Any

from sqlalchemy import LargeBinary
from sqlmodel import Field

from store.base import EVENT_ID, Row, big, json


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
