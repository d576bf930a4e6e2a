"""Jobs: what a tenant sends, and what comes back."""

from typing import Annotated, Any, Literal

from corral.contract import RESERVED_ENV, Argument, EnvName, Line, Name, Request, Sha256, View
from corral.pulls import PullProgress
from corral.quantities import Duration, Size, Start
from corral.secrets import SECRETS_PER_JOB_MAX, SecretName
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

PRIORITIES = ("low", "normal", "high", "urgent")
"""Classes, lowest first."""
Priority = Literal["low", "normal", "high", "urgent"]
IsolationLevel = Literal["process", "container", "gvisor", "kata"]
ENV_VARIABLES_MAX = 256
ENV_BYTES_MAX = 131_072
COMMAND_BYTES_MAX = 131_072
ARRAY_MAX = 10_000
AFTER_MAX = 64
BATCH_MAX = 1_000

ModelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]{0,95}$")]
RetryCause = Annotated[
    str,
    StringConstraints(
        pattern=r"^(platform|preempted|failure|oom|time_limit|exit:([1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5]))$"
    ),
]
ImageName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")]
"""The name of a catalogue entry: never a tag, a registry or a digest."""


def _one_or_many(value: Any) -> Any:
    """`"H100"` stands for `["H100"]`."""
    return [value] if isinstance(value, str) else value


def _tenant_env(env: dict[str, str]) -> dict[str, str]:
    if len(env) > ENV_VARIABLES_MAX:
        raise ValueError(f"at most {ENV_VARIABLES_MAX} variables")
    if sum(len(k) + len(v.encode()) + 2 for k, v in env.items()) > ENV_BYTES_MAX:
        raise ValueError(f"at most {ENV_BYTES_MAX} bytes of environment")
    for key in env:
        if RESERVED_ENV.match(key):
            raise ValueError(f"{key} is set by the platform")
    return env


def _command(command: list[str]) -> list[str]:
    if not command[0]:
        raise ValueError("the first word names the program")
    if sum(len(word.encode()) + 1 for word in command) > COMMAND_BYTES_MAX:
        raise ValueError(f"at most {COMMAND_BYTES_MAX} bytes of command")
    return command


def _once_each(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise ValueError("a secret is named twice")
    return names


class Resources(Request):
    """What the job needs on its node."""

    gpus: int = Field(default=0, ge=0, le=1024)
    gpu_model: Annotated[list[ModelName], BeforeValidator(_one_or_many), Field(max_length=16)] = []
    """Accepted models; empty for any."""
    gpu_memory_min: Size = Field(default=0, ge=0)
    topology: Literal["any"] = "any"
    cpus: int = Field(default=1, ge=1, le=1024)
    memory: Size = Field(default=512 * 2**20, ge=16 * 2**20)
    shm: Size = Field(default=64 * 2**20, ge=0)
    scratch: Size = Field(default=0, ge=0)
    output: Size = Field(default=256 * 2**20, ge=2**20)
    """Most that may be left in /out."""


class Retry(Request):
    """When a job is tried again. Faults of the platform always are, up to the platform's own limit."""

    limit: int = Field(default=0, ge=0, le=20)
    on: list[RetryCause] = Field(default=["platform", "preempted"], max_length=16)


class Array(Request):
    """So many jobs instead of one; each finds CORRAL_ARRAY_ID, CORRAL_ARRAY_INDEX and CORRAL_ARRAY_COUNT."""

    count: int = Field(ge=1, le=ARRAY_MAX)
    first: int = Field(default=0, ge=0, le=1_000_000)
    """Index of the first."""
    step: int = Field(default=1, ge=1, le=1_000)
    """Between two indexes."""
    most_running: int | None = Field(default=None, ge=1, le=ARRAY_MAX)
    """Of them at once; None for as many as there is room."""


class AfterJob(Request):
    """A job or an array that is to end first. An array succeeds if all of its jobs do."""

    job: Annotated[str, StringConstraints(pattern=r"^((job|arr)_[0-9a-z]{26}|#.{1,200})$")]
    """An id; in a batch also `#` and the name of a job before it."""
    on: Literal["success", "failure", "any"] = "success"


def _one_after(value: Any) -> Any:
    """`"job_…"` stands for `{"job": "job_…"}`."""
    return {"job": value} if isinstance(value, str) else value


After = Annotated[AfterJob, BeforeValidator(_one_after)]


def _each_once(after: list[AfterJob]) -> list[AfterJob]:
    if len({each.job for each in after}) != len(after):
        raise ValueError("a job stands there twice")
    return after


class JobSpec(Request):
    """A job, as sent. Fields of features that the server does not have yet are accepted at their neutral value."""

    name: Line | None = None
    image: ImageName
    command: Annotated[list[Argument], AfterValidator(_command)] = Field(min_length=1, max_length=4096)
    resources: Resources = Resources()
    nodes: int = Field(default=1, ge=1, le=1)
    isolation: IsolationLevel | None = None
    """The least level; None is the tenant's default."""
    network: Literal["none"] = "none"
    priority: Priority = "normal"
    time_limit: Duration | None = Field(default=None, ge=1_000_000, le=365 * 86400 * 10**6)
    """None takes the tenant's default."""
    preemptible: bool = False
    grace: Duration = Field(default=30_000_000, ge=0, le=600_000_000)
    retry: Retry = Retry()
    max_unreachable: Duration | Literal["never"] = 900_000_000
    env: Annotated[dict[EnvName, Argument], AfterValidator(_tenant_env)] = {}
    secrets: Annotated[list[SecretName], AfterValidator(_once_each)] = Field(default=[], max_length=SECRETS_PER_JOB_MAX)
    """Names of the tenant's secrets: files in /run/secrets, with the values that they have when the job starts."""
    inputs: list[Sha256] = Field(default=[], max_length=16)
    outputs: list[Literal["/out"]] = Field(default=["/out"], max_length=1)
    array: Array | None = None
    after: Annotated[list[After], Field(max_length=AFTER_MAX), AfterValidator(_each_once)] = []
    """Jobs and arrays of the tenant that are to end before it starts; it is cancelled if one can't end so any more."""
    not_before: Start | None = None
    labels: dict[Name, Line] = Field(default={}, max_length=64)

    @model_validator(mode="after")
    def _gpu_wishes_need_gpus(self) -> "JobSpec":
        if self.resources.gpus == 0 and (self.resources.gpu_model or self.resources.gpu_memory_min):
            raise ValueError("gpu_model and gpu_memory_min need gpus to be 1 or more")
        return self


class WaitReason(View):
    """Why a job waits."""

    code: str
    text: str
    numbers: dict[str, int] = {}


class DeviceView(View):
    """A device that an attempt holds or held."""

    uuid: str
    model: str
    is_simulated: bool


class AttemptView(View):
    """One try at running a job."""

    id: str
    number: int
    state: str
    node: str
    level: str
    fence: int
    devices: list[DeviceView]
    outcome: str | None
    exit_code: int | None
    error: str | None
    """For people: what went wrong, where something did."""
    assigned_at: int
    claimed_at: int | None
    started_at: int | None
    ended_at: int | None
    prepare_us: int | None
    run_us: int | None
    stop_us: int | None
    pull: PullProgress | None
    """How far the pull of its image has come, while it is prepared."""
    isolation: dict[str, Any] | None
    """The isolation record: what was observed before the first instruction."""
    skipped: list[dict[str, str]] = []
    """What in /out did not become an artifact, and why."""


class ArrayPlace(View):
    """Which job of an array it is."""

    id: str
    index: int
    count: int


class TemplateUse(View):
    """The template from which a job was made, as it was then."""

    name: str
    version: int


class JobView(View):
    """A job, as it stands. Times are microseconds since the epoch, UTC."""

    id: str
    tenant_id: str
    state: str
    reason: WaitReason | None
    """Why it waits, while it does."""
    outcome: str | None
    exit_code: int | None
    error: str | None
    spec: JobSpec
    submitted_at: int
    started_at: int | None
    ended_at: int | None
    attempts: int
    attempt: AttemptView | None
    """The latest one."""
    array: ArrayPlace | None = None
    template: TemplateUse | None = None


class ArrayView(View):
    """An array, and how many of its jobs are in which state."""

    id: str
    tenant_id: str
    count: int
    most_running: int | None
    states: dict[str, int]
    submitted_at: int


class BatchView(View):
    """What became of a batch: an id for each of its jobs, in their order; for an array, the array's."""

    ids: list[str]


class EventView(View):
    """Something that happened to a job."""

    id: int
    """Which of the job's events it is, from 1."""
    at: int
    what: str
    attempt_id: str | None
    text: str
    data: dict[str, Any] = {}


class ArtifactView(View):
    """A file that a job left."""

    name: str
    size_bytes: int
    sha256: str
    attempt_id: str


class InputView(View):
    """A stored input."""

    sha256: str
    size_bytes: int
