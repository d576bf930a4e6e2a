"""What the policy sees: the cluster, the tenants and the queue at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.ids import GpuId, Instant, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from domain.purse import Purse

WHOLE_GPU = 1000
"""Thousandths of a device in a whole one."""
NEVER = Instant(0)
ANY_CLASS = -1
"""The class of jobs of a price that holds for all of them."""
ANY_MODEL = "*"
"""The row of a quota that counts every model."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the scheduler sees it."""

    gpu_id: GpuId
    uuid: str
    model: str
    memory_bytes: int
    is_free: bool
    """Nobody holds it, and the worker found it clean and healthy."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine as the scheduler sees it. What is free is free now: held amounts are already taken off."""

    node_id: NodeId
    name: str
    is_open: bool
    """Ready, reachable and not draining."""
    levels: frozenset[Level]
    cuda_driver: tuple[int, int] | None
    """Newest CUDA version that its driver runs; None without an NVIDIA driver."""
    cpus_milli_free: int
    memory_bytes_free: int
    scratch_bytes_free: int
    cpus_milli: int
    memory_bytes: int
    scratch_bytes: int
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class TenantShare:
    """A tenant's rights and its use, now. Shares are thousandths of a GPU."""

    tenant_id: TenantId
    parent_id: TenantId | None
    weight: int
    is_active: bool
    gpu_limit_milli: Mapping[str, int | None]
    """What use may reach, by model and `*`; None is no bound of its own. A model without a row is bounded by `*`."""
    gpu_used_milli: Mapping[str, int]
    running_limit: int | None
    running: int
    served_at: Instant = NEVER
    """When something of it, or of one below it, was started last; 0 for never."""
    gpu_promised_milli: Mapping[str, int] = field(default_factory=dict)
    """What is guaranteed."""
    gpu_kept_milli: Mapping[str, int] = field(default_factory=dict)
    """The part of it that is lent to nobody."""
    gpu_reserved_milli: Mapping[str, int] = field(default_factory=dict)
    """What is kept for those below it and not used by them."""
    levels: frozenset[Level] | None = None
    """What its own quota allows; None for all that those above it do."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A queued job, reduced to what placing it needs."""

    job_id: JobId
    tenant_id: TenantId
    priority: int
    """Rank of its class; higher goes first."""
    submitted_at: Instant
    not_before: Instant
    """Earliest start: a back-off after a failed start."""
    gpus: int
    models: tuple[str, ...]
    """Accepted models; empty for any."""
    gpu_memory_min_bytes: int
    cpus_milli: int
    memory_bytes: int
    scratch_bytes: int
    """Scratch and output together."""
    least_level: Level
    allowed_levels: frozenset[Level]
    image_kind: ImageKind
    min_cuda: tuple[int, int] | None
    """CUDA version of the image, which the node's driver must run; None for an image without CUDA."""
    avoid: frozenset[NodeId]
    """Nodes where a try of it failed by the platform's fault, passed over while another fits."""
    image_reference: str = ""
    """What its image pins: `repository@sha256:…`, an engine's id, or `host`."""
    longest_us: int = 0
    """How long it can hold its devices: what it may cost at most depends on it."""
    key_id: str | None = None
    """The key that submitted it."""
    is_postponed: bool = False
    """Whether `not_before` is the tenant's own wish; else it is a back-off."""
    array_id: str | None = None


@dataclass(frozen=True, slots=True)
class Funds:
    """What may be spent. Empty where nobody has a bound."""

    purses: tuple[Purse, ...] = ()
    """Of tenants and of keys; the rules for months among them."""
    dearest_micro: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By model (or `*`) and class (or `ANY_CLASS`): the most that a GPU-hour can cost now."""
    key_chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each key that was made by another: those above it, the topmost first, and itself."""


@dataclass(frozen=True, slots=True)
class ArrayRoom:
    """An array that asked for a bound: how many of its jobs may run at once, and how many do."""

    most_running: int
    running: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a pass may use."""

    nodes: tuple[Node, ...]
    tenants: Mapping[TenantId, TenantShare]
    queue: tuple[Demand, ...]
    arrays: Mapping[str, ArrayRoom] = field(default_factory=dict)
    """Those that asked for a bound."""
    barred_images: Mapping[str, "Reason"] = field(default_factory=dict)
    """Images that start nowhere now, by reference or by the digest at its end."""
    funds: Funds = Funds()


@dataclass(frozen=True, slots=True)
class Placement:
    """One line of a plan: this job, there, on these devices, at this level."""

    job_id: JobId
    tenant_id: TenantId
    node_id: NodeId
    gpu_ids: tuple[GpuId, ...]
    models: tuple[str, ...]
    """The model of each device, in the order of `gpu_ids`."""
    level: Level


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job waits: a stable code, the numbers, a sentence."""

    code: str
    """`waiting_for_jobs`, `not_before`, `array_limit`, `quota_gpus`, `quota_borrowing`, `quota_running`,
    `tenant_suspended`, `back_off`, `image_blocked`, `image_refused`, `image_unchecked`, `no_node`, `no_level`,
    `no_model`, `no_memory`, `no_driver`, `no_device`, `no_room`; of a purse, `budget_short`, `month_hours_exhausted`
    and so on."""
    text: str
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass decided: each queued job is in exactly one of the two."""

    placements: tuple[Placement, ...]
    waiting: Mapping[JobId, Reason]
