"""Nodes and their devices."""

from typing import Any

from sqlalchemy import CheckConstraint
from sqlmodel import Field

from store.base import Row, big, json


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
    next_token_sha256: str | None = Field(default=None, unique=True)
    """Of a renewed token, which takes the other's place when it is first used."""
    token_made_us: int | None = big(default=None)
    revoked_us: int | None = big(default=None)
    """Neither token counts any more, until the node joins anew."""
    boot_id: str = ""
    agent_version: str = ""
    kernel: str = ""
    driver_version: str | None = None
    cuda_driver: str | None = None
    levels: list[str] = json(default_factory=list)
    level_reports: list[dict[str, Any]] = json(default_factory=list)
    labels: dict[str, str] = json(default_factory=dict)
    problems: list[str] = json(default_factory=list)
    images: list[dict[str, Any]] = json(default_factory=list)
    """What its worker has pulled or is pulling, as its last heartbeat said."""
    beat: int = big(default=0)
    last_beat_us: int | None = big(default=None)
    cpus_milli: int = big(default=0)
    memory_bytes: int = big(default=0)
    scratch_bytes: int = big(default=0)
    cpus_milli_used: int = big(default=0)
    memory_bytes_used: int = big(default=0)
    scratch_bytes_used: int = big(default=0)
    created_us: int = big()
    hints_password_sha256: str | None = None
    """Of the password that its worker made for Redis at its last start; hex."""


class JoinToken(Row, table=True):
    """Lets one node join, once."""

    __tablename__ = "join_token"

    id: str = Field(primary_key=True)
    secret_sha256: str = Field(unique=True)
    node_name: str
    created_us: int = big()
    expires_us: int = big()
    used_us: int | None = big(default=None)
    revoked_us: int | None = big(default=None)


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
