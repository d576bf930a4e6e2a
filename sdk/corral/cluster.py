"""Nodes, devices and images: what there is to run on."""

from typing import Annotated, Literal

from corral.contract import Line, Name, Request, View
from corral.jobs import ImageName, IsolationLevel
from pydantic import Field, StringConstraints

ImageReference = Annotated[
    str,
    StringConstraints(
        pattern=r"^(host|sha256:[0-9a-f]{64}|[a-z0-9][a-z0-9.-]{0,200}(:[0-9]{1,5})?(/[a-z0-9._-]{1,100}){1,8}@sha256:[0-9a-f]{64})$"
    ),
]
"""`repo@sha256:…`, or an engine's image id for an image built on the spot, or `host`. Never a tag."""


class ImageSpec(Request):
    """An image to be admitted to the catalogue."""

    name: ImageName
    reference: ImageReference
    min_cuda: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]?\.[0-9]{1,2}$")] | None = None
    """CUDA version inside, such as "12.8"; None for an image without CUDA."""
    description: Line | None = None


class ImageView(View):
    name: str
    kind: Literal["host", "engine"]
    reference: str
    min_cuda: str | None
    description: str | None
    state: Literal["admitted", "retired"]


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
    gpus: list[NodeGpuView]


class JoinTokenSpec(Request):
    """A token with which one node may join, once."""

    node_name: Name
    valid_seconds: int = Field(default=3600, ge=10, le=7 * 86400)


class JoinToken(View):
    token: str
    node_name: str
    expires_at: int


class Empty(Request):
    """A body that says nothing."""
