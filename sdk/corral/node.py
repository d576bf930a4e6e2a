"""What a node's worker and the API say to each other.

A worker sends its node's own token and may touch only what was assigned to its node.
"""

from typing import Annotated, Any, Literal

from corral.contract import Line, Name, Request, View
from corral.images import CudaVersion, ImageReference
from corral.jobs import DeviceView, IsolationLevel
from pydantic import Field

Fence = Annotated[int, Field(ge=0, le=2**62)]
Span = Annotated[int, Field(ge=0, le=2**48)]
"""Microseconds on a node's boot-time clock: up to nine years, so that no sum of a ledger runs over."""
DEVICES_MAX = 1024
"""Of one node."""


class LevelReport(Request):
    """What a probe of a sandbox level found."""

    level: IsolationLevel
    is_offered: bool
    runtime: str
    runtime_version: str
    reasons: list[str] = []


class DeviceReport(Request):
    """A device of the node, as its worker sees it."""

    uuid: Line
    model: Annotated[Line, Field(max_length=96)]
    memory_bytes: int = Field(ge=0, le=2**62)
    is_simulated: bool
    health: Literal["ok", "sick"]
    health_reason: str = Field(default="", max_length=500)
    is_clean: bool
    """No process on it, memory at baseline, and no sandbox of this worker holds it."""
    clean_reason: str = Field(default="", max_length=500)
    """Why it is not clean."""
    generation: Fence | None
    """As the last answer told it: a finding about an older generation is not believed. None at first."""
    ecc: str = "unsupported"
    utilisation_pct: int | None = None


class NodeFacts(Request):
    """What a node is, as its worker finds it at its start."""

    boot_id: Line
    agent_version: Line
    kernel: Line
    driver_version: Line | None
    cuda_driver: Line | None
    """Newest CUDA version that the driver runs, such as "12.8"."""
    cpus_milli: int = Field(ge=0, le=10**9)
    memory_bytes: int = Field(ge=0, le=2**62)
    scratch_bytes: int = Field(ge=0, le=2**62)
    levels: list[LevelReport] = Field(max_length=16)
    devices: list[DeviceReport] = Field(max_length=DEVICES_MAX)
    labels: dict[Name, str] = {}
    hints_password_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Of the password with which this worker will ask Redis for hints, until its next start."""


class Registration(Request):
    """A node joins (with a one-time token in `Authorization`), or says what it is now (with its own)."""

    facts: NodeFacts


class Registered(View):
    """The node's own credential, shown once, at its joining only."""

    node_id: str
    node_name: str
    token: str | None
    """None when the node had one already."""
    heartbeat_seconds: int


class PullReport(Request):
    """How far a pull has come. The sizes are those of the layers that have been announced so far."""

    layers_done: int = Field(ge=0, le=10_000)
    layers: int = Field(ge=0, le=10_000)
    bytes_done: int = Field(ge=0, le=2**62)
    bytes_total: int = Field(ge=0, le=2**62)


class ImageReport(Request):
    """An image that the worker has pulled, or is pulling."""

    reference: ImageReference
    size_bytes: int | None = Field(default=None, ge=0, le=2**62)
    pull: PullReport | None = None


class SignatureDemand(View):
    """Whose signature an image must carry: that of a key, or of an identity that an issuer vouched for."""

    rule_id: str
    key_pem: str | None
    identity: str | None
    issuer: str | None
    transparency_log: bool


class ImageTask(View):
    """An image that a node should pull before a job needs it, or look at for the catalogue."""

    reference: str
    is_to_check: bool
    """Answer with what was found."""
    signature: SignatureDemand | None
    """For a check: the signature to be looked for."""


class FoundSetting(Request):
    """A setting of an image's that counts for nothing here."""

    name: str = Field(max_length=300)
    found: str = Field(max_length=1000)
    instead: str = Field(max_length=300)


class ImageFindings(Request):
    """What a node found behind a reference that it was asked to look at."""

    reference: ImageReference
    findings: list[FoundSetting] = Field(default=[], max_length=1000)
    refusals: list[Annotated[str, Field(max_length=500)]] = Field(default=[], max_length=100)
    """Why it may not run; empty if it may."""
    cuda: CudaVersion | None = None
    size_bytes: int | None = Field(default=None, ge=0, le=2**62)
    signed_by: str | None = Field(default=None, max_length=500)
    trouble: str | None = Field(default=None, max_length=500)
    """Why it could not look at all: the registry is away, say. Then the rest says nothing."""


class HeldSandbox(Request):
    """A sandbox that the worker holds."""

    attempt_id: str
    fence: Fence
    is_alive: bool


class NodeToken(View):
    """A renewed credential, which takes the place of the one before when it is first used."""

    token: str


class Heartbeat(Request):
    """A sign of life, every `heartbeat_seconds`."""

    boot_id: str
    devices: list[DeviceReport] = Field(max_length=DEVICES_MAX)
    held: list[HeldSandbox] = Field(max_length=10_000)
    problems: list[str] = Field(default=[], max_length=50)
    images: list[ImageReport] = Field(default=[], max_length=1000)


class SandboxVerdict(View):
    """What to do with a sandbox that was named. What is not named here is left alone."""

    attempt_id: str
    fence: Fence
    verdict: Literal["keep", "stop", "remove"]
    reason: str
    """For `stop`: a stop reason, as the runner knows them."""


class Assignment(View):
    """An attempt that waits to be claimed by this node."""

    attempt_id: str
    fence: Fence


class HeartbeatAnswer(View):
    beat: int
    generations: dict[str, int]
    """Of each device, by UUID."""
    verdicts: list[SandboxVerdict]
    assigned: list[Assignment]
    """A second way for hints that were lost."""
    images: list[ImageTask] = []


class Claim(Request):
    fence: Fence


class Order(View):
    """What a worker that claimed an attempt is to run."""

    attempt_id: str
    fence: Fence
    job_id: str
    tenant_id: str
    level: IsolationLevel
    image_kind: Literal["host", "engine"]
    image_reference: str
    signature: SignatureDemand | None = None
    """What the image must be signed with, or nothing of it starts."""
    command: list[str]
    env: dict[str, str]
    cpus_milli: int
    memory_bytes: int
    shm_bytes: int
    scratch_bytes: int
    output_bytes: int
    devices: list[DeviceView]
    inputs: list[str]
    secrets: list[str] = []
    """Names; the values are asked for apart, and are never written down."""
    time_limit_us: int
    grace_us: int
    max_unreachable_us: int | None


class SecretsAsked(Request):
    fence: Fence


class SecretValue(View):
    """A secret that the attempt's job names."""

    name: str
    value: str = Field(repr=False)
    """In base64."""


class AttemptSecrets(View):
    """The values, for the node that holds the attempt while it lives; each time they are given is recorded."""

    secrets: list[SecretValue]


class Started(Request):
    """The gate was opened."""

    fence: Fence
    prepare_us: Span
    """From the claim's answer to the opening, on the node's boot-time clock."""
    isolation: dict[str, Any]


class Progress(Request):
    """Something worth telling while the attempt is prepared."""

    fence: Fence
    text: str = Field(max_length=500)
    pull: PullReport | None = None
    """Of its image. Then `text` is for nobody: what changes every second is no event."""


class SkippedFile(Request):
    name: str
    reason: str


EndOutcome = Literal[
    "exited",
    "oom_killed",
    "time_limit",
    "cancelled",
    "preempted",
    "node_lost",
    "gpu_fault",
    "image_error",
    "sandbox_error",
    "input_error",
    "budget_exhausted",
]


class Ended(Request):
    """The attempt is over, its output stored, its sandbox removed. Durations are of the node's boot-time clock."""

    fence: Fence
    outcome: EndOutcome
    exit_code: int | None = Field(ge=0, le=255)
    error: str = Field(default="", max_length=2000)
    prepare_us: Span
    run_us: Span
    stop_us: Span
    """From the end of the run (or the stop order) to the release of the devices, without `fault_us`."""
    fault_us: Span = 0
    """Of that time, what was spent waiting for an API that was away: the platform's, recorded and not charged."""
    isolation: dict[str, Any] | None = None
    skipped: list[SkippedFile] = Field(default=[], max_length=1000)
    devices: list[DeviceReport] = Field(default=[], max_length=DEVICES_MAX)
    """The attempt's devices, looked at after the sandbox was removed."""


class AttemptStanding(View):
    """Where the attempt stands after a report."""

    attempt_id: str
    state: str
    stop_reason: str | None = None
    """Set when it should stop."""


class LogAnswer(View):
    """How much of the log the server holds; the next segment starts there."""

    size_bytes: int
