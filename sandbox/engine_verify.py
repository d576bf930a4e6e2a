"""Verifies a container's waiting gate: what the host sees, and what only the engine can tell, beside the order."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sandbox import cgroups
from sandbox.comparison import Comparison
from sandbox.contract import FactSource, LaunchOrder, SandboxFault
from sandbox.engine_facts import EngineFacts
from sandbox.hardening import (
    GATE_PLACE,
    INPUT_PLACE,
    MASKED,
    NOFILE,
    OOM_SCORE_ADJ,
    PLACES,
    READ_ONLY,
    SECRETS_PLACE,
    TMP_INODES,
    nano_cpus,
    real_devices,
    shm_bytes,
    tmp_bytes,
    volumes_of,
)
from sandbox.image_gate import STEERING, AdmittedImage
from sandbox.job_user import job_uid
from sandbox.observe import Observation, observe
from sandbox.scratch import SECRETS
from sandbox.secret_files import compare_secrets
from sandbox.wall_facts import (
    TmpfsRule,
    compare_devices,
    compare_limits,
    compare_namespaces,
    compare_no_network,
    compare_process,
    compare_read_only,
    compare_rlimit,
    compare_tmpfs,
)

PROC: Final = Path("/proc")
PLAIN_DEVICES: Final = frozenset({"full", "null", "random", "tty", "urandom", "zero"})
"""What every container is given; none reaches hardware."""
SHOWN_MAX: Final = 80
"""Longer settings, and those with parts, are compared and not shown: they may hold a secret, or the host's paths."""
GPU_DEVICES: Final = frozenset({"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"})
"""What a container with any GPU is given beside the GPUs' own nodes."""


def gate_pid(init_pid: int, container_id: str) -> int:
    """The gate's process id on the host: the one other process in the container of `init_pid`."""
    others = sorted(container_pids(init_pid, container_id) - {init_pid})
    if len(others) > 1:
        raise SandboxFault("more than the gate runs in the container before it was opened")
    return others[0] if others else init_pid


def container_pids(init_pid: int, container_id: str) -> frozenset[int]:
    """The host's ids of all processes in the container whose first is `init_pid`; empty if it is gone."""
    try:
        _, folder = cgroups.folders_of(init_pid)["pids"]
        if container_id not in folder.name:
            return (
                frozenset()
            )  # it has ended: the kernel moves what ends to the top group, with all the host's processes
        files = [folder / "cgroup.procs", *folder.glob("**/cgroup.procs")]
        return frozenset(int(line) for file in files for line in file.read_text().split())
    except (OSError, KeyError):
        return frozenset()


def compare_observed(
    comparison: Comparison,
    order: LaunchOrder,
    pid: int,
    facts: EngineFacts,
    volumes: Mapping[str, Path],
    dropped_env: tuple[str, ...],
) -> None:
    """All that the host sees of the gate, process `pid`, beside the order."""
    seen = observe(pid)
    job = job_uid(order.tenant_id, facts.bounds.uids) + facts.user_offset
    compare_process(comparison, seen, job, job)
    compare_namespaces(comparison, seen, ("cgroup", "ipc", "mnt", "net", "pid", "uts"))
    if facts.remaps_users:
        compare_namespaces(comparison, seen, ("user",))
    else:
        comparison.not_in_force("namespace_user", "own", "the engine does not remap users")
    compare_no_network(comparison, seen)
    _compare_places(comparison, order, seen, volumes)
    compare_secrets(comparison, order, seen, job)
    compare_limits(
        comparison,
        seen,
        memory_bytes=order.memory_bytes,
        pids=order.pids_limit,
        cpus_milli=nano_cpus(order, facts.bounds) // 1_000_000,
    )
    compare_rlimit(comparison, seen, "Max open files", NOFILE)
    compare_rlimit(comparison, seen, "Max core file size", 0)
    comparison.exact("oom_score_adj", OOM_SCORE_ADJ, seen.oom_score_adj)
    compare_devices(comparison, seen, PLAIN_DEVICES | _gpu_nodes(order))
    _compare_gpus(comparison, order, seen)
    _compare_env(comparison, order, pid, dropped_env)
    _compare_apparmor(comparison, pid)


def compare_configured(
    comparison: Comparison, body: Mapping[str, Any], image: AdmittedImage, inspect: Mapping[str, Any]
) -> None:
    """What only the engine can tell: it must say again what it was told, with the image's plain variables beside it."""
    config, host = inspect["Config"], inspect["HostConfig"]
    comparison.exact("image", body["Image"], inspect["Image"], FactSource.CONFIGURED)
    for name in ("Entrypoint", "NetworkDisabled", "StopSignal", "User", "WorkingDir"):
        _compare_echo(comparison, name, body[name], config.get(name))
    _compare_echo(comparison, "Healthcheck", body["Healthcheck"]["Test"], config.get("Healthcheck", {}).get("Test"))
    env = dict(image.kept_env) | _environment(body["Env"])
    _compare_echo(comparison, "Env", env, _environment(config.get("Env")))
    _compare_echo(comparison, "Labels", body["Labels"], {name: config["Labels"].get(name) for name in body["Labels"]})
    strangers = []
    for name, asked in body["HostConfig"].items():
        if _without_empty(asked) is not None:
            _compare_echo(comparison, name, asked, host.get(name))
        elif _without_empty(host.get(name)) is not None:
            strangers.append(name)
    comparison.holds("engine, anything else", "none", not strangers, _words(strangers), FactSource.CONFIGURED)
    wanted = {mount["Target"]: not mount["ReadOnly"] for mount in body["HostConfig"]["Mounts"]}
    found = {mount["Destination"]: mount["RW"] for mount in inspect["Mounts"]}
    comparison.exact("engine.mounts", _access(wanted), _access(found), FactSource.CONFIGURED)


def _access(mounts: Mapping[str, bool]) -> str:
    return " ".join(f"{path}:{'rw' if mounts[path] else 'ro'}" for path in sorted(mounts))


def record_image(comparison: Comparison, image: AdmittedImage) -> None:
    """What the image carried that counts for nothing, and what stands in its place."""
    for finding in image.findings:
        comparison.holds(f"image {finding.name}", finding.instead, True, finding.instead, FactSource.CONFIGURED)


def _compare_echo(comparison: Comparison, name: str, asked: object, found: object) -> None:
    """One setting; the engine writes an empty list, an empty word and nothing at all alike."""
    asked, found = _without_empty(asked), _without_empty(found)
    is_same = asked == found
    shown = "as asked" if isinstance(asked, dict | list) or len(str(asked)) > SHOWN_MAX else str(asked or "none")
    comparison.holds(f"engine.{name}", shown, is_same, shown if is_same else "differs", FactSource.CONFIGURED)


def _without_empty(value: object) -> object:
    """A setting without its parts that say nothing."""
    if isinstance(value, dict):
        return {name: kept for name, part in value.items() if (kept := _without_empty(part)) is not None} or None
    if isinstance(value, list):
        return [_without_empty(part) for part in value] or None
    return value or None


def _environment(lines: object) -> dict[str, str]:
    """The variables that are set. A bare name was the order to take one out."""
    pairs = (str(line).partition("=") for line in lines) if isinstance(lines, list) else ()
    return {name: value for name, equals, value in pairs if equals}


def _compare_places(comparison: Comparison, order: LaunchOrder, seen: Observation, volumes: Mapping[str, Path]) -> None:
    for path in ("/", GATE_PLACE, *([INPUT_PLACE] if order.input_dir is not None else ())):
        compare_read_only(comparison, seen, path)
    for path in READ_ONLY:
        if Path(path).exists():
            compare_read_only(comparison, seen, path)
    for path in MASKED:
        if Path(path).exists():
            comparison.holds(f"masked {path}", "masked", seen.mount(path) is not None, _mounted(seen, path))
    compare_tmpfs(comparison, seen, TmpfsRule("/tmp", tmp_bytes(order), inodes=TMP_INODES))  # noqa: S108
    options = frozenset({"nosuid", "nodev", "noexec"})
    compare_tmpfs(comparison, seen, TmpfsRule("/dev/shm", shm_bytes(order), options, TMP_INODES))  # noqa: S108
    for volume in volumes_of(order):
        path = PLACES[volume.name]
        wanted = {"rw", "nosuid", "nodev"} | (set() if volume.may_execute else {"noexec"})
        mount = seen.mount(path)
        found = mount.options if mount else frozenset()
        comparison.holds(f"mount {path}", _words(wanted), wanted <= found, _words(found))
        comparison.exact(f"mount {path} is ours", True, _is_same(seen.pid, path, volumes[volume.name]))
        comparison.at_most(f"size {path}", volume.image_bytes, _size(volumes[volume.name]))
    if order.secrets:
        comparison.exact(f"mount {SECRETS_PLACE} is ours", True, _is_same(seen.pid, SECRETS_PLACE, volumes[SECRETS]))
    known = {"/", GATE_PLACE, INPUT_PLACE, "/tmp", "/dev", *PLACES.values()}  # noqa: S108
    writable = {mount.mount_point for mount in seen.mounts if "ro" not in mount.options}
    strangers = {path for path in writable - known if path.split("/")[1] not in ("dev", "proc", "sys")}
    comparison.holds("other writable mounts", "none", not strangers, _words(strangers))


def _mounted(seen: Observation, path: str) -> str:
    return "masked" if seen.mount(path) is not None else "open"


def _is_same(pid: int, path: str, place: Path) -> bool:
    """Whether what is at `path` inside is the volume at `place` on the host."""
    try:
        inside, outside = (PROC / str(pid) / "root" / path.lstrip("/")).stat(), place.stat()
    except OSError:
        return False
    return (inside.st_dev, inside.st_ino) == (outside.st_dev, outside.st_ino)


def _size(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_blocks * found.f_frsize


def _gpu_nodes(order: LaunchOrder) -> frozenset[str]:
    """The device nodes that the order's GPUs come with; none for a job without one."""
    uuids = {device.uuid for device in real_devices(order)}
    if not uuids:
        return frozenset()
    minors = _minors()
    return GPU_DEVICES | {f"nvidia{minors[uuid]}" for uuid in uuids if uuid in minors}


def _compare_gpus(comparison: Comparison, order: LaunchOrder, seen: Observation) -> None:
    """Exactly the GPUs of the order: one less is as wrong as one more."""
    minors = _minors() if real_devices(order) else {}
    asked = {f"nvidia{minors.get(device.uuid, '?')}" for device in real_devices(order)}
    found = {name for name in seen.devices if name.startswith("nvidia") and name.removeprefix("nvidia").isdigit()}
    comparison.exact("gpus", asked, found)


def _minors() -> dict[str, str]:
    """The number in each GPU's device node, by its UUID, as NVIDIA's driver tells it."""
    found = {}
    for file in PROC.glob("driver/nvidia/gpus/*/information"):
        lines = dict(line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
        found[lines.get("GPU UUID", "").strip()] = lines.get("Device Minor", "").strip()
    return found


def _compare_env(comparison: Comparison, order: LaunchOrder, pid: int, dropped: tuple[str, ...]) -> None:
    """No variable that steers loaders or hooks, whatever the image says."""
    try:
        lines = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError as error:
        raise SandboxFault(f"the gate's environment cannot be read: {error.strerror}") from error
    names = {line.partition(b"=")[0].decode(errors="replace") for line in lines if line}
    steering = {name for name in names if STEERING.fullmatch(name)} - {"NVIDIA_VISIBLE_DEVICES"}
    comparison.holds("steering variables", "none", not steering, _words(steering))
    for name in dropped:
        if name != "NVIDIA_VISIBLE_DEVICES":
            comparison.exact(f"image ENV {name}", "taken out", "present" if name in names else "taken out")


def _compare_apparmor(comparison: Comparison, pid: int) -> None:
    """The engine accepts a profile also where the kernel has no AppArmor, and says nothing."""
    try:
        is_enabled = Path("/sys/module/apparmor/parameters/enabled").read_text().strip() == "Y"
        profile = (PROC / str(pid) / "attr/apparmor/current").read_text().strip() if is_enabled else ""
    except OSError:
        is_enabled, profile = False, ""
    if is_enabled:
        comparison.holds("apparmor", "confined", profile not in ("", "unconfined"), profile or "unconfined")
    else:
        comparison.not_in_force("apparmor", "confined", "the kernel has no AppArmor")


def _words(values: object) -> str:
    return ",".join(sorted(map(str, values))) or "none"  # type: ignore[call-overload]
