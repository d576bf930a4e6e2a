"""Makes a control group for one sandbox, where the host lets us: both versions, as root or in a delegated subtree."""

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox import cgroups

OURS = "corral"
CPU_PERIOD_US = 100_000
CONTROLLERS = ("memory", "pids", "cpu")
GONE_WITHIN_S, POLL_S = 5.0, 0.01
NO_GROUP = (
    "the host gives no control group for it: run the agent as root, or as a service with a subtree of its own "
    "(systemd: Delegate=yes and DelegateSubgroup=agent)"
)


@dataclass(frozen=True, slots=True)
class Group:
    """What a process has to be written to, and what is then in force."""

    folders: Mapping[str, Path]
    """By controller; of version 2, the same folder for each."""

    @property
    def procs(self) -> tuple[Path, ...]:
        """The files to which a process writes itself."""
        return tuple(folder / "cgroup.procs" for folder in sorted(set(self.folders.values())))

    @property
    def oom_files(self) -> tuple[Path, ...]:
        """Where the kernel counts those it killed for want of memory (`oom_kill N`)."""
        folder = self.folders.get("memory")
        names = ("memory.events", "memory.oom_control")
        return tuple(folder / name for name in names if (folder / name).exists())[:1] if folder else ()


def make(name: str, memory_bytes: int, pids: int, cpus_milli: int) -> Group:
    """A group of this name with these limits; a controller that the host does not give us is left out."""
    settings = {
        "memory": (("memory.max", "memory.limit_in_bytes"), str(memory_bytes)),
        "pids": (("pids.max",), str(pids)),
        "cpu": (("cpu.max", "cpu.cfs_quota_us"), str(cpus_milli * CPU_PERIOD_US // 1000)),
    }
    made = {}
    for controller, (files, value) in settings.items():
        folder = _folder(controller, name)
        if folder is not None and _limit(folder, files, value):
            made[controller] = folder
    return Group(made)


def remove(name: str) -> None:
    """Kill what is left in the group, and take it away.

    Raises:
        OSError: a process in it does not die.
    """
    deadline = time.monotonic() + GONE_WITHIN_S
    for folder in _existing(name):
        while True:
            try:
                folder.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
            for pid in _pids(folder):
                with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                    os.kill(pid, signal.SIGKILL)
            time.sleep(POLL_S)


def pids_in(name: str) -> frozenset[int]:
    """The processes in the group."""
    return frozenset(pid for folder in _existing(name) for pid in _pids(folder))


def _existing(name: str) -> list[Path]:
    """The group's folders, each once: version 2 has one for all controllers."""
    folders = {parent / name for controller in CONTROLLERS for parent in _parents(controller)}
    return sorted(folder for folder in folders if folder.is_dir())


def _pids(folder: Path) -> list[int]:
    try:
        return [int(word) for word in (folder / "cgroup.procs").read_text().split()]
    except FileNotFoundError:
        return []


def _folder(controller: str, name: str) -> Path | None:
    for parent in _parents(controller):
        try:
            parent.mkdir(exist_ok=True)
            _enable(controller, parent.parent)
            _enable(controller, parent)
            (parent / name).mkdir(exist_ok=True)
        except OSError:
            continue  # read-only, another's, or a group with processes of its own: the next one up may do
        return parent / name
    return None


def _parents(controller: str) -> list[Path]:
    """Where our groups may lie: root's at the top, so that no end of a service takes them away; another's below."""
    place = cgroups.folders_of(os.getpid()).get(controller)
    if place is None:
        return []
    top, folder = place
    if os.geteuid() == 0:
        return [top / OURS]
    chain = [folder, *(parent for parent in folder.parents if parent.is_relative_to(top))]
    return [parent / OURS for parent in reversed(chain) if _may_move_below(parent)]


def _may_move_below(folder: Path) -> bool:
    """Whether we may make groups here, and move a process of our own into them."""
    return os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _enable(controller: str, folder: Path) -> None:
    """Version 2: hand the controller down to the children. Version 1 has no such file, and needs none."""
    control = folder / "cgroup.subtree_control"
    if control.exists() and controller not in control.read_text().split():
        control.write_text(f"+{controller}")


def _limit(folder: Path, files: tuple[str, ...], value: str) -> bool:
    """Set the limit by the first of these files that there is; False if there is none, or the kernel refuses."""
    file = next((name for name in files if (folder / name).exists()), None)
    try:
        if file == "cpu.max":
            (folder / file).write_text(f"{value} {CPU_PERIOD_US}")
        elif file is not None:
            (folder / file).write_text(value)
        _complete(folder, file, value)
    except OSError:
        return False
    return file is not None


def _complete(folder: Path, file: str | None, value: str) -> None:
    """What belongs to a limit: the period of version 1's quota, and no swapping beyond the memory.

    A kernel that does not count swap has neither file; the record then says so.
    """
    if file == "cpu.cfs_quota_us":
        (folder / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
    elif file == "memory.max" and (folder / "memory.swap.max").exists():
        (folder / "memory.swap.max").write_text("0")
    elif file == "memory.limit_in_bytes" and (folder / "memory.memsw.limit_in_bytes").exists():
        (folder / "memory.memsw.limit_in_bytes").write_text(value)
