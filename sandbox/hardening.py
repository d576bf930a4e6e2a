"""What a job's container gets: a pure translation of an order into the engine's own request, whose default is no.

Everything is said, nothing is left to the engine's defaults. Each line that permits something has its reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from sandbox.contract import DeviceGrant, LaunchOrder, SandboxFault
from sandbox.image_gate import STEERING, AdmittedImage
from sandbox.job_user import job_uid
from sandbox.scratch import SECRETS, Volume

RUNTIMES: Final = frozenset({"runc", "runsc"})
"""The only runtimes that are ever asked for, always by name: the engine's default may be another one tomorrow."""

TMP_BYTES_MAX: Final = 4 << 30
TMP_INODES: Final = 65_536
NOFILE: Final = 65_536
OOM_SCORE_ADJ: Final = 500
"""When the host itself runs short, jobs go before the engine, the runners and the agent."""
PLACES: Final = MappingProxyType({"out": "/out", "scratch": "/scratch"})
GATE_PLACE: Final = "/.corral"
INPUT_PLACE: Final = "/in"
SECRETS_PLACE: Final = "/run/secrets"

MASKED: Final = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/diskstats",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/locks",
    "/proc/partitions",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/block",
    "/sys/class/bdi",
    "/sys/class/block",
    "/sys/dev/block",
    "/sys/devices/virtual/bdi",
    "/sys/devices/virtual/block",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/ext4",
)
"""Of the host and of other jobs: memory, keys, timers, power (a side channel), and what lies on which disk: a loop
device names its file, and so the attempt whose volume it is, and counts all that its job reads and writes."""
READ_ONLY: Final = ("/proc/bus", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

LABEL_ATTEMPT: Final = "corral.attempt"
LABEL_FENCE: Final = "corral.fence"
LABEL_JOB: Final = "corral.job"
LABEL_NODE: Final = "corral.node"
LABEL_STATE: Final = "corral.state"
LABEL_TENANT: Final = "corral.tenant"
LABEL_LEVEL: Final = "corral.level"


@dataclass(frozen=True, slots=True)
class HostBounds:
    """What this machine and its engine can give at most."""

    cpus: int
    nofile_max: int
    """The daemon's own limit; a container that asks for more does not start."""
    has_cdi: bool
    """Whether GPUs are named by CDI; if not, by a request to NVIDIA's own hook."""
    uids: range
    """The users, as a container knows them, among which each tenant's jobs have one."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What stands around one order: where its parts lie on the host, and what the engine is told to run first."""

    runtime: str
    seccomp_json: str
    gate_dir: Path
    gate_command: tuple[str, ...]
    """The whole first command, the tenant's at its end."""
    volumes: Mapping[str, Path]
    """Mount points on the host, by the names in `PLACES`."""


def container_name(order: LaunchOrder) -> str:
    """A name that only one container can have: the engine's refusal of a second is the mutual exclusion."""
    return f"corral-{order.attempt_id}"


def volumes_of(order: LaunchOrder) -> tuple[Volume, ...]:
    """The writable places of an order that have a size of their own. Programs may run from /scratch, not from /out."""
    out = Volume("out", order.output_bytes, may_execute=False)
    return (out, Volume("scratch", order.scratch_bytes, may_execute=True)) if order.scratch_bytes else (out,)


def create_body(order: LaunchOrder, image: AdmittedImage, setting: Setting, bounds: HostBounds) -> dict[str, Any]:
    """The body of the engine's create call, as its API version 1.41 has it.

    Raises:
        SandboxFault: the order asks for what is never given.
    """
    _check(order, setting)
    uid = job_uid(order.tenant_id, bounds.uids)
    return {
        "Image": image.image_id,  # by content: a tag can move between check and use
        "Hostname": "job",
        "Domainname": "",
        "User": f"{uid}:{uid}",  # numeric and not 0: root could leave set-uid files in the output
        "WorkingDir": "/",  # the gate goes elsewhere; an image's own may name what runc left open (CVE-2024-21626)
        "Entrypoint": list(setting.gate_command),
        "Cmd": [],
        "Env": _env(order, image, bounds),
        "Labels": labels_of(order),
        "Tty": False,
        "OpenStdin": False,
        "StdinOnce": False,
        "AttachStdin": False,
        "AttachStdout": False,
        "AttachStderr": False,
        "NetworkDisabled": True,  # beside the mode: the start is twice as fast, the isolation the same
        "StopSignal": "SIGTERM",
        "Healthcheck": {"Test": ["NONE"]},  # an image's own runs the tenant's code outside the command
        "Volumes": {},
        "HostConfig": _host_config(order, setting, bounds),
    }


def labels_of(order: LaunchOrder) -> dict[str, str]:
    """For adoption and reaping: everything needed to find the attempt again with the agent's own memory lost."""
    return {
        LABEL_ATTEMPT: order.attempt_id,
        LABEL_FENCE: str(order.fence),
        LABEL_JOB: order.job_id,
        LABEL_LEVEL: order.level.value,
        LABEL_NODE: order.node_id,
        LABEL_STATE: str(order.state_dir),
        LABEL_TENANT: order.tenant_id,
    }


def tmp_bytes(order: LaunchOrder) -> int:
    """Size of /tmp; what lies there counts as the job's memory."""
    return min(TMP_BYTES_MAX, max(order.memory_bytes // 2, 1 << 20))


def shm_bytes(order: LaunchOrder) -> int:
    """Size of /dev/shm; never 0, which a tmpfs takes for no limit."""
    return max(order.shm_bytes, 4096)


def nano_cpus(order: LaunchOrder, bounds: HostBounds) -> int:
    """Never more than the host has: the engine refuses that, and it would limit nothing."""
    return min(order.cpus_milli * 1_000_000, bounds.cpus * 1_000_000_000)


def real_devices(order: LaunchOrder) -> tuple[DeviceGrant, ...]:
    """The GPUs that exist; a simulated one is in the record and nowhere else."""
    return tuple(device for device in order.devices if not device.is_simulated)


def _host_config(order: LaunchOrder, setting: Setting, bounds: HostBounds) -> dict[str, Any]:
    return {
        "Runtime": setting.runtime,
        "Privileged": False,
        "CapAdd": [],
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={setting.seccomp_json}"],
        "ReadonlyRootfs": True,
        "MaskedPaths": list(MASKED),
        "ReadonlyPaths": list(READ_ONLY),
        "NetworkMode": "none",
        "PublishAllPorts": False,
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "PidMode": "",
        "UTSMode": "",
        "UsernsMode": "",  # the daemon's remapping, where it has one; never `host`
        "Init": True,  # reaps what the job orphans, and passes SIGTERM on
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,  # else the exit state is gone after a crash
        "Memory": order.memory_bytes,
        "MemorySwap": order.memory_bytes,  # memory and swap together: no swap
        "MemorySwappiness": None,
        "OomKillDisable": False,
        "OomScoreAdj": OOM_SCORE_ADJ,
        "PidsLimit": order.pids_limit,
        "NanoCpus": nano_cpus(order, bounds),
        "ShmSize": shm_bytes(order),
        "Ulimits": _ulimits(bounds),
        "Tmpfs": _tmpfs(order, bounds),
        "Mounts": _mounts(order, setting),
        "Binds": [],
        "Devices": [],
        "DeviceCgroupRules": [],
        "DeviceRequests": _device_requests(order, bounds),
        "Links": [],
        "ExtraHosts": [],
        "GroupAdd": [],
        "VolumesFrom": [],
        "LogConfig": {"Type": "none", "Config": {}},  # the runner takes the log: the daemon's CPU is not the job's
    }


def _check(order: LaunchOrder, setting: Setting) -> None:
    if setting.runtime not in RUNTIMES:
        raise SandboxFault(f"the runtime {setting.runtime!r} is not one that jobs are given")
    if order.pids_limit <= 0 or order.memory_bytes <= 0 or order.cpus_milli <= 0:
        raise SandboxFault("an order without a limit of processes, memory or CPUs is not run")  # 0 is unlimited
    missing = {volume.name for volume in volumes_of(order)} - set(setting.volumes)
    missing |= {SECRETS} - set(setting.volumes) if order.secrets else set()
    if missing:
        raise SandboxFault(f"no place of a fixed size for {', '.join(sorted(missing))}")


def _env(order: LaunchOrder, image: AdmittedImage, bounds: HostBounds) -> list[str]:
    """The tenant's, without what steers loaders and hooks; then ours. A bare name takes the image's variable out."""
    if steering := sorted(name for name in order.env if STEERING.fullmatch(name)):
        raise SandboxFault(f"the variable {steering[0]} is not a job's to set")
    env = {"HOME": "/tmp"} | dict(order.env) | {"NVIDIA_VISIBLE_DEVICES": _visible(order, bounds)}  # noqa: S108
    return [
        *(name for name in image.dropped_env if name not in env),
        *(f"{name}={value}" for name, value in env.items()),
    ]


def _visible(order: LaunchOrder, bounds: HostBounds) -> str:
    """What NVIDIA's hook is told, if there is one: nothing, unless the request to it is how the GPUs come in."""
    devices = real_devices(order)
    return "void" if bounds.has_cdi or not devices else ",".join(device.uuid for device in devices)


def _device_requests(order: LaunchOrder, bounds: HostBounds) -> list[dict[str, Any]]:
    """GPUs by UUID: an index may name another device after a restart, and a count lets the engine choose."""
    uuids = [device.uuid for device in real_devices(order)]
    if not uuids:
        return []
    if bounds.has_cdi:
        return [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={uuid}" for uuid in uuids]}]
    return [{"Driver": "nvidia", "Count": 0, "DeviceIDs": uuids, "Capabilities": [["gpu"]], "Options": {}}]


def _ulimits(bounds: HostBounds) -> list[dict[str, Any]]:
    """No `nproc`: it counts over all containers of one uid."""
    nofile = min(NOFILE, bounds.nofile_max)
    return [
        {"Name": "nofile", "Soft": nofile, "Hard": nofile},
        {"Name": "core", "Soft": 0, "Hard": 0},  # a core's pattern may be a pipe to a program of the host's
    ]


def _tmpfs(order: LaunchOrder, bounds: HostBounds) -> dict[str, str]:
    """Programs may run from /tmp; /dev/shm stands here because by the engine's own setting it has no end of files."""
    uid = job_uid(order.tenant_id, bounds.uids)
    return {
        "/tmp": f"rw,exec,nosuid,nodev,{_bounds(tmp_bytes(order), uid)},mode=0700",  # noqa: S108
        "/dev/shm": f"rw,noexec,nosuid,nodev,{_bounds(shm_bytes(order), uid)},mode=1777",  # noqa: S108
    }


def _bounds(size_bytes: int, uid: int) -> str:
    """The job's user is named because an old runc ignores the mode where the image has the folder."""
    return f"size={size_bytes},nr_inodes={TMP_INODES},uid={uid},gid={uid}"


def _mounts(order: LaunchOrder, setting: Setting) -> list[dict[str, Any]]:
    mounts = [_bind(setting.gate_dir, GATE_PLACE, is_read_only=True)]
    mounts += [_bind(setting.volumes[v.name], PLACES[v.name], is_read_only=False) for v in volumes_of(order)]
    if order.input_dir is not None:
        mounts.append(_bind(order.input_dir, INPUT_PLACE, is_read_only=True))
    if order.secrets:
        mounts.append(_bind(setting.volumes[SECRETS], SECRETS_PLACE, is_read_only=True))
    return mounts


def _bind(source: Path, target: str, is_read_only: bool) -> dict[str, Any]:
    """A mount that fails where the source is missing, and through which no later mount of the host's comes in."""
    options = {"Propagation": "rprivate", "NonRecursive": True}
    return {
        "Type": "bind",
        "Source": str(source),
        "Target": target,
        "ReadOnly": is_read_only,
        "BindOptions": options,
    }
