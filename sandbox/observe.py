"""What the host sees of a gate that waits inside a sandbox; nothing here asks an engine."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox import cgroups, proc_files
from sandbox.contract import SandboxFault
from sandbox.proc_files import Mount, Status

PROC = Path("/proc")
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


@dataclass(frozen=True, slots=True)
class Observation:
    """One process, as the host's /proc and cgroups show it."""

    pid: int
    status: Status
    namespaces: Mapping[str, int]
    """Inode of each namespace by its name in /proc/PID/ns."""
    host_namespaces: Mapping[str, int]
    """The reader's own, to compare with."""
    mounts: tuple[Mount, ...]
    limits: cgroups.Limits
    net_devices: tuple[str, ...]
    rlimits: Mapping[str, tuple[int | None, int | None]]
    oom_score_adj: int
    devices: tuple[str, ...]
    """Names of the device nodes anywhere below its /dev, such as `null` or `nvidia0`."""

    def is_apart(self, namespace: str) -> bool:
        """Whether it lives in another namespace of this kind than the host."""
        return self.namespaces[namespace] != self.host_namespaces[namespace]

    def mount(self, path: str) -> Mount | None:
        """What is mounted exactly at `path` inside; None if nothing is."""
        return proc_files.mount_at(self.mounts, path)


def observe(pid: int, proc: Path = PROC) -> Observation:
    """Look at process `pid` from outside.

    Raises:
        SandboxFault: it is gone, or the host does not let us look.
    """
    folder = proc / str(pid)
    try:
        return Observation(
            pid=pid,
            status=proc_files.parse_status((folder / "status").read_text()),
            namespaces=_namespaces(folder),
            host_namespaces=_namespaces(proc / "self"),
            mounts=proc_files.parse_mountinfo((folder / "mountinfo").read_text()),
            limits=cgroups.limits_of(pid, proc),
            net_devices=proc_files.parse_net_devices((folder / "net/dev").read_text()),
            rlimits=proc_files.parse_limits((folder / "limits").read_text()),
            oom_score_adj=int((folder / "oom_score_adj").read_text()),
            devices=_device_nodes(folder / "root/dev"),
        )
    except OSError as error:
        raise SandboxFault(f"the gate (process {pid}) cannot be observed: {error.strerror}") from error


def pids_in_namespace(pid: int, proc: Path = PROC) -> frozenset[int]:
    """The host's ids of all processes in the pid namespace of `pid`; empty if `pid` is gone."""
    wanted = _namespace_inode(proc / str(pid), "pid")
    if wanted is None:
        return frozenset()
    numbers = (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())
    return frozenset(number for number in numbers if _namespace_inode(proc / str(number), "pid") == wanted)


def _namespaces(folder: Path) -> dict[str, int]:
    return {name: (folder / "ns" / name).stat().st_ino for name in NAMESPACES}


def _namespace_inode(folder: Path, name: str) -> int | None:
    try:
        return (folder / "ns" / name).stat().st_ino
    except OSError:
        return None  # it ended between the listing and the look, or is not ours to look at


def _device_nodes(root: Path) -> tuple[str, ...]:
    """Device nodes below `root`, pseudo-terminals left out; links are not followed."""
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in ("pts", "shm", "mqueue")]
        found += [str((Path(folder) / name).relative_to(root)) for name in names if _is_device(Path(folder) / name)]
    return tuple(sorted(found))


def _is_device(path: Path) -> bool:
    return not path.is_symlink() and (path.is_char_device() or path.is_block_device())
