"""Nodes and devices: what there is to run on."""

from typing import Literal

from corral.contract import Name, Request, View
from corral.images import NodeImage
from corral.jobs import IsolationLevel
from pydantic import Field


class GpuAvailability(View):
    """A kind of device that a job could ask for."""

    model: str
    memory_bytes: int
    is_simulated: bool
    total: int
    free: int
    usable: int
    """Not sick, not dirty, on a node that takes jobs."""


class NodeGpuView(View):
    id: str
    uuid: str
    model: str
    memory_bytes: int
    is_simulated: bool
    health: str
    health_reason: str
    state: str
    """`clean`, `dirty` (not free yet after its last holder) or `absent`."""
    used_milli: int


class NodeView(View):
    id: str
    name: str
    state: Literal["ready", "draining", "unreachable", "lost"]
    levels: list[IsolationLevel]
    level_reasons: dict[str, list[str]]
    """For each level: why it is not offered, or what is missing."""
    driver_version: str | None
    cuda_driver: str | None
    cpus_milli: int
    memory_bytes: int
    scratch_bytes: int
    cpus_milli_used: int
    memory_bytes_used: int
    beat: int
    last_beat_at: int | None
    token_made_at: int | None = None
    """When the credential that it uses was made; its worker renews it daily."""
    revoked_at: int | None = None
    """Since when nothing that it says counts; it has to join anew."""
    gpus: list[NodeGpuView]
    images: list[NodeImage]
    """What its worker has pulled, or is pulling."""


class JoinTokenSpec(Request):
    """A token with which one node may join, once."""

    node_name: Name
    valid_seconds: int = Field(default=3600, ge=10, le=7 * 86400)


class JoinTokenView(View):
    """A token, without its secret."""

    id: str
    node_name: str
    state: Literal["open", "used", "revoked", "expired"]
    created_at: int
    expires_at: int
    used_at: int | None


class JoinToken(View):
    id: str
    token: str
    node_name: str
    expires_at: int


class Empty(Request):
    """A body that says nothing."""
