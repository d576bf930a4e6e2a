"""What every sandbox backend offers, and the values that cross its border."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import NewType, Protocol

from domain.ids import AttemptId, Fence, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level

SandboxId = NewType("SandboxId", str)
"""The backend's own name of a sandbox; the same after a restart of the agent."""


class SandboxFault(Exception):
    """The sandbox could not do what was asked. `code` is stable; the message is fit for the tenant."""

    code = "sandbox_error"


class ImageMissing(SandboxFault):
    """The image is not on the node and cannot be brought there: another node may have it."""


class SecretMissing(SandboxFault):
    """A secret that the job names is not there: the tenant's fault."""

    code = "input_error"


class ImageRefused(SandboxFault):
    """The image is not what was pinned, or the image gate turned it away: the tenant's fault."""

    code = "image_error"


class WeakerThanAsked(SandboxFault):
    """What is observed on the waiting gate differs from the order; the gate stays shut."""

    code = "weaker_than_asked"


class EngineAway(SandboxFault):
    """The engine does not answer. It says nothing of the sandboxes: unreachable is not failed."""

    code = "engine_away"


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """One GPU that the attempt may see."""

    uuid: str
    model: str
    is_simulated: bool


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """All that a backend needs to make one attempt's sandbox. Written to the attempt's state folder before anything."""

    attempt_id: AttemptId
    fence: Fence
    job_id: JobId
    tenant_id: TenantId
    node_id: NodeId
    level: Level
    image_kind: ImageKind
    image_reference: str
    """`repo@sha256:…`, or `sha256:…` (the engine's image id); `host` for the `process` level."""
    command: tuple[str, ...]
    env: Mapping[str, str]
    cpus_milli: int
    memory_bytes: int
    shm_bytes: int
    scratch_bytes: int
    """Size of /scratch; 0 for none."""
    output_bytes: int
    """Size of /out."""
    pids_limit: int
    devices: tuple[DeviceGrant, ...]
    input_dir: Path | None
    """Unpacked inputs, mounted read-only at /in."""
    state_dir: Path
    """The attempt's own folder: order, journal, runner's socket, log. Nothing of it is visible inside, but the gate."""
    time_limit_us: int
    grace_us: int
    max_unreachable_us: int | None
    """None: never stopped for silence."""
    unreachable_at_us: int | None
    """Boot-time at which the runner stops it unless it was moved forward; None: never."""
    log_bytes_max: int
    log_bytes_per_second: int
    secrets: tuple[str, ...] = ()
    """Names of what is found in /run/secrets. The values are given apart: this here is written down."""


NO_SECRETS: Mapping[str, bytes] = MappingProxyType({})


class StopReason(StrEnum):
    """Why a sandbox was told to stop; the first reason counts."""

    TIME_LIMIT = "time_limit"
    UNREACHABLE = "unreachable"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    BUDGET_EXHAUSTED = "budget_exhausted"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Exit:
    """How the tenant's command ended, as the runner measured it on the node's boot-time clock."""

    exit_code: int | None
    """0 to 255 as the shell counts (128 + signal); None if it never ran or the code is lost."""
    is_oom_killed: bool
    stop_reason: StopReason | None
    """Set if the runner was told to stop it, or did so by a deadline, before it ended."""
    run_us: int
    """From the opening of the gate to the stop order or, without one, to the exit."""
    stop_us: int
    """From the stop order to the exit; 0 without one."""
    error: str
    """The engine's own complaint, when the command could not be started; empty otherwise."""
    is_gate_opened: bool


class FactSource(StrEnum):
    """How a fact of the isolation record is known."""

    OBSERVED = "observed"
    """Read from the host's /proc, cgroups or mounts, on the waiting gate."""
    CONFIGURED = "configured"
    """Asked of the engine, which only echoes it."""
    NOT_IN_FORCE = "not_in_force"
    """The host does not let us; shown to the tenant as such."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the isolation record."""

    name: str
    asked: str
    found: str
    source: FactSource


@dataclass(frozen=True, slots=True)
class IsolationRecord:
    """What isolation an attempt really has."""

    level: Level
    runtime: str
    runtime_version: str
    kernel: str
    image: str
    devices: tuple[str, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """What a backend found when it really started and checked a sandbox here."""

    level: Level
    is_offered: bool
    runtime: str
    runtime_version: str
    reasons: tuple[str, ...] = ()
    """Why it is not offered, or what is missing though it is; each a sentence that says what would help."""


@dataclass(frozen=True, slots=True)
class Held:
    """A sandbox found on this node."""

    sandbox_id: SandboxId
    attempt_id: AttemptId
    fence: Fence
    tenant_id: TenantId
    state_dir: Path
    is_alive: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something in /out that did not become an artifact."""

    name: str
    reason: str


class Sandbox(Protocol):
    """Runs one attempt's untrusted code.

    Every method may be called again after a crash, with the same arguments. Every method may raise `EngineAway`.
    """

    level: Level

    def probe(self) -> Probe:
        """Start a sandbox of this level, look at it from outside, remove it; say whether it may be offered."""

    def create(self, order: LaunchOrder, secrets: Mapping[str, bytes] = NO_SECRETS) -> SandboxId:
        """Make it, or find the one already made under this attempt and fence. The gate waits; nothing of the job runs.

        `secrets` are the values of those that the order names; they are kept in memory alone.

        Raises:
            ImageMissing: it is neither here nor to be had.
            ImageRefused: it is another than was pinned, or carries what the gate forbids.
            SandboxFault: it could not be made.
        """

    def verify(self, sandbox: SandboxId, order: LaunchOrder) -> IsolationRecord:
        """Observe, on the gate that waits inside, what isolation is in force.

        Raises:
            WeakerThanAsked: any setting differs from the order.
        """

    def start(self, sandbox: SandboxId, order: LaunchOrder) -> None:
        """Open the gate, once; the runner checks the deadlines first. Opening an open gate changes nothing."""

    def wait(self, sandbox: SandboxId, order: LaunchOrder, timeout_s: float | None) -> Exit | None:
        """How it ended; None if it still runs when the time is up.

        Raises:
            SandboxFault: the sandbox is gone and left no record of its end.
        """

    def extend(self, sandbox: SandboxId, order: LaunchOrder, unreachable_at_us: int) -> None:
        """Move the runner's deadline for silence forward, to a boot-time."""

    def stop(self, sandbox: SandboxId, order: LaunchOrder, reason: StopReason, grace_us: int) -> None:
        """SIGTERM now, SIGKILL when the grace is over. Returns at once; `wait` tells when it is done."""

    def output_fd(self, sandbox: SandboxId, order: LaunchOrder) -> int:
        """A directory descriptor of what was left in /out, after the end; the caller closes it."""

    def secrets(self, sandbox: SandboxId, order: LaunchOrder) -> Mapping[str, bytes]:
        """The values that were brought into it; none of it is known any more once it is removed.

        Raises:
            SandboxFault: they are gone.
        """

    def remove(self, sandbox: SandboxId, order: LaunchOrder | None) -> None:
        """Kill what is left, unmount, forget. The state folder stays. Removing what is gone changes nothing."""

    def list(self) -> tuple[Held, ...]:
        """Every sandbox of this backend on this node, alive or not, whoever made it."""

    def pids(self, sandbox: SandboxId) -> frozenset[int]:
        """The host's process ids inside it, so that a GPU's processes can be named."""


@dataclass(frozen=True, slots=True)
class Collected:
    """One regular file found in /out, open for reading."""

    name: str
    """Its path below /out, with `/`; valid UTF-8, no control characters."""
    size_bytes: int
    fd: int = field(repr=False)
