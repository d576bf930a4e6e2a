"""The host's control groups, both versions: reading what is in force on a process, and making a group for one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox import proc_files

PROC = Path("/proc")
NO_LIMIT_BYTES = 1 << 62
"""Version 1 writes `no limit` as the largest multiple of a page; anything this large is none."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is in force on a process: the tightest along its path. None is unlimited or unknown."""

    memory_bytes: int | None = None
    memory_and_swap_bytes: int | None = None
    pids: int | None = None
    cpus_milli: int | None = None


def limits_of(pid: int, proc: Path = PROC) -> Limits:
    """The limits in force on process `pid`, as far as this host's mounted hierarchies show them."""
    folders = folders_of(pid, proc)
    memory = _chain(folders.get("memory"), _memory)
    swap = _chain(folders.get("memory"), _memory_and_swap)
    return Limits(memory, swap, _chain(folders.get("pids"), _pids), _chain(folders.get("cpu"), _cpus_milli))


def folders_of(pid: int, proc: Path = PROC) -> dict[str, tuple[Path, Path]]:
    """For `memory`, `pids` and `cpu`: the mount of its hierarchy, and the folder of `pid` below it."""
    lines = (proc / "self/mountinfo").read_text().splitlines()
    mounts = proc_files.parse_mountinfo("\n".join(line for line in lines if " - cgroup" in line))
    found: dict[str, tuple[Path, Path]] = {}
    for row in proc_files.parse_cgroup((proc / str(pid) / "cgroup").read_text()):
        for mount in mounts:
            for name in _controllers_at(mount, row):
                top = Path(mount.mount_point)
                found.setdefault(name, (top, top / _below(mount.root, row.path)))
    return found


def _controllers_at(mount: proc_files.Mount, row: proc_files.CgroupPath) -> frozenset[str]:
    wanted = frozenset({"memory", "pids", "cpu"})
    if mount.fs_type == "cgroup":
        return wanted & row.controllers & frozenset(mount.super_options)
    if mount.fs_type == "cgroup2" and not row.controllers:
        return wanted & frozenset(_words(Path(mount.mount_point) / "cgroup.controllers"))
    return frozenset()


def _below(root: str, path: str) -> str:
    """`path` as seen from a mount of `root`; a path outside it is taken as the mount's top."""
    if root == "/":
        return path.lstrip("/")
    return path[len(root) :].lstrip("/") if path.startswith(root) else ""


def _chain(place: tuple[Path, Path] | None, read: Callable[[Path], int | None]) -> int | None:
    """The least that `read` finds from a folder up to its hierarchy's top."""
    if place is None:
        return None
    top, folder = place
    chain = [folder, *(parent for parent in folder.parents if parent.is_relative_to(top))]
    return min((value for value in map(read, chain) if value is not None), default=None)


def _memory(folder: Path) -> int | None:
    return _number(folder / "memory.max", folder / "memory.limit_in_bytes")


def _memory_and_swap(folder: Path) -> int | None:
    """Version 1 counts both in one number, version 2 counts swap alone."""
    memory, swap = _number(folder / "memory.max"), _number(folder / "memory.swap.max")
    if memory is not None and swap is not None:
        return memory + swap
    return _number(folder / "memory.memsw.limit_in_bytes")


def _pids(folder: Path) -> int | None:
    return _number(folder / "pids.max")


def _cpus_milli(folder: Path) -> int | None:
    words = _words(folder / "cpu.max")
    quota, period = words if len(words) == 2 else _quota_and_period(folder)
    return int(quota) * 1000 // int(period) if quota.isdigit() and int(period) else None


def _quota_and_period(folder: Path) -> tuple[str, str]:
    quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
    return (quota[0], period[0]) if quota and period else ("max", "0")


def _number(*files: Path) -> int | None:
    """The number in the first of these files that exists; None for `max`, `no limit`, or none of them."""
    word = next((words[0] for words in map(_words, files) if words), "max")
    return int(word) if word.isdigit() and int(word) < NO_LIMIT_BYTES else None


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []  # this version or this host has no such file
