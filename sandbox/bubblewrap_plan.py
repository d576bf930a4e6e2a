"""What a job's bubblewrap gets: a pure translation of an order into arguments, whose default is an empty root."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sandbox import gate
from sandbox.contract import LaunchOrder, SandboxFault
from sandbox.hardening import MASKED, NOFILE, OOM_SCORE_ADJ, SECRETS_PLACE, shm_bytes, tmp_bytes
from sandbox.host_gpus import nodes_of
from sandbox.image_gate import STEERING

NICE: Final = 5
SHELL: Final = ("/bin/sh",)
"""The host's own, below the read-only /usr: all that is inside is the host's."""
HOST_LINKS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
HOST_FILES: Final = ("/etc/ld.so.cache", "/etc/alternatives")
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
TOO_WIDE: Final = frozenset({"/", "/home", "/root", "/var", "/etc", "/run", "/opt", "/srv", "/mnt"})

Argument = str | dict[str, str]
"""A word, or a place of the host's that is first made reachable for the job's user: `{"source": path}`."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What this host and this agent bring: found once."""

    program_dirs: tuple[Path, ...]
    """The folder that holds bubblewrap, and the libraries that it wants beside it."""
    program: str
    """Its path below the first of these."""
    run_as: int | None
    """The user that the runner becomes first; None if the agent is no root and the job runs as its user."""
    uid: int
    gid: int
    host_links: dict[str, str | None]
    """Folders of the host's root: where each links to, or None if it is a folder."""
    masked: dict[str, bool]
    """What of /proc is hidden, and whether it is a folder."""
    host_files: tuple[str, ...]
    python: Path | None
    """The agent's own Python, if it lies outside /usr."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What control groups do, and what is left to the gate."""

    procs: tuple[Path, ...]
    oom_files: tuple[Path, ...]
    processes_limit: int
    """The gate's own limit of processes; 0 if a control group has one."""


def python_outside_usr(prefix: str = sys.base_prefix) -> Path | None:
    """Where the Python that runs us is installed, if a job could not see it otherwise; None if that is too wide."""
    if Path(prefix).is_relative_to("/usr") or prefix in TOO_WIDE:
        return None
    return Path(prefix)


def runner_plan(order: LaunchOrder, ground: Ground, bounds: Bounds) -> dict[str, Any]:
    """The part of the runner's plan that is bubblewrap's.

    Raises:
        SandboxFault: the order asks for what is never given.
    """
    _check(order)
    return {
        "kind": "bubblewrap",
        "program_dirs": [str(folder) for folder in ground.program_dirs],
        "program": ground.program,
        "argv": list(arguments(order, ground)),
        "command": list(gate.command_line(SHELL, order.command, bounds.processes_limit)),
        "run_as": [ground.run_as, ground.run_as] if ground.run_as is not None else None,
        "cgroup_procs": [str(file) for file in bounds.procs],
        "oom_files": [str(file) for file in bounds.oom_files],
        "oom_score_adj": OOM_SCORE_ADJ,
        "nice": NICE,
        "rlimits": {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": NOFILE},
        "kept_directories": ["out", "scratch"] if order.scratch_bytes else ["out"],
        "secrets_dir": SECRETS_PLACE if order.secrets else None,
    }


def arguments(order: LaunchOrder, ground: Ground) -> Iterator[Argument]:
    """Bubblewrap's arguments: later mounts lie on earlier ones, and the root is closed last."""
    yield from ("--unshare-all", "--unshare-user", "--disable-userns")
    yield from ("--clearenv", "--new-session", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "job")
    yield from _host_parts(order, ground)
    yield from _kernel_parts(order, ground)
    yield from _tmpfs("/tmp", tmp_bytes(order))  # noqa: S108
    yield from _tmpfs("/out", order.output_bytes)
    if order.scratch_bytes:
        yield from _tmpfs("/scratch", order.scratch_bytes)
    if order.input_dir is not None:
        yield from ("--ro-bind", {"source": str(order.input_dir)}, "/in")
    if order.secrets:
        yield from ("--dir", SECRETS_PLACE)  # what is mounted there comes from outside, once the gate waits
    yield from ("--ro-bind", {"source": str(order.state_dir / "gate")}, gate.INSIDE)
    yield from ("--remount-ro", "/", "--chdir", "/")
    for name, value in environment(order, ground).items():
        yield from ("--setenv", name, value)


def environment(order: LaunchOrder, ground: Ground) -> dict[str, str]:
    """The tenant's, on top of what a program expects; no more."""
    path = PATH if ground.python is None else f"{ground.python}/bin:{PATH}"
    own = {"HOME": "/tmp", "PATH": path, "TMPDIR": "/tmp", "USER": "job", "LANG": "C.UTF-8"}  # noqa: S108
    return own | dict(order.env) | {"NVIDIA_VISIBLE_DEVICES": "void"}


def etc_files(ground: Ground) -> dict[str, str]:
    """The few files of /etc that programs want, with nothing of the host's in them."""
    return {
        "passwd": f"root:x:0:0:root:/:/bin/sh\njob:x:{ground.uid}:{ground.gid}:job:/tmp:/bin/sh\n",
        "group": f"root:x:0:\njob:x:{ground.gid}:\n",
        "hosts": "127.0.0.1 localhost\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }


def _check(order: LaunchOrder) -> None:
    if steering := sorted(name for name in order.env if STEERING.fullmatch(name)):
        raise SandboxFault(f"the variable {steering[0]} is not a job's to set")
    if order.pids_limit <= 0 or order.memory_bytes <= 0 or order.cpus_milli <= 0 or order.output_bytes <= 0:
        raise SandboxFault("an order without a limit of processes, memory, CPUs or output is not run")


def _host_parts(order: LaunchOrder, ground: Ground) -> Iterator[Argument]:
    """What a program needs to start at all, read-only: no home, no /var, no /run, nothing of /etc but this."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name, target in ground.host_links.items():
        yield from ("--symlink", target, f"/{name}") if target else ("--ro-bind", f"/{name}", f"/{name}")
    for path in ground.host_files:
        yield from ("--ro-bind", path, path)
    for name in etc_files(ground):
        yield from ("--ro-bind", {"source": str(order.state_dir / "etc" / name)}, f"/etc/{name}")
    if ground.python is not None:
        yield from ("--ro-bind", {"source": str(ground.python)}, str(ground.python))


def _kernel_parts(order: LaunchOrder, ground: Ground) -> Iterator[Argument]:
    yield from ("--proc", "/proc")
    # Process 1 is bubblewrap's own and has no filter; a job that could write its memory would have none either.
    for path, is_folder in {"/proc/1": True, **ground.masked}.items():
        yield from _empty(path) if is_folder else ("--ro-bind", "/dev/null", path)
    yield from ("--dev", "/dev")
    for name in nodes_of(order.devices):
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    yield from _tmpfs("/dev/shm", shm_bytes(order))  # noqa: S108
    yield from ("--remount-ro", "/dev")  # a tmpfs without a limit


def _tmpfs(path: str, size_bytes: int) -> Iterator[Argument]:
    yield from ("--perms", "1777", "--size", str(max(size_bytes, 4096)), "--tmpfs", path)


def _empty(path: str) -> Iterator[Argument]:
    yield from ("--perms", "0555", "--size", "4096", "--tmpfs", path, "--remount-ro", path)


def masked_here(proc: Path = Path("/proc")) -> dict[str, bool]:
    """Which of the paths that no job may see exist in this kernel's /proc."""
    found = {path: proc / Path(path).relative_to("/proc") for path in MASKED if path.startswith("/proc/")}
    return {path: place.is_dir() for path, place in found.items() if place.exists()}
