"""Becomes the sandbox: gives up what the runner may and the job must not, then turns into bubblewrap.

Started by the runner as its child, with the state folder and three descriptors. Standard library only, and nothing of
ours: it stands between the runner and the job, and runs as root where the runner does.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

CLONE_NEWNS = 0x20000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
STAGE = "/tmp"  # noqa: S108 - a file system of our own is mounted there, in a mount namespace of our own
"""Any folder that exists everywhere and that everyone may enter."""

libc = ctypes.CDLL(None, use_errno=True)


def main(state_dir: str, runner_pid: int, status_fd: int, filter_fd: int) -> None:
    """Join the cgroups, lower the limits, show the sources, drop the user, become bubblewrap."""
    with open(f"{state_dir}/run.json", encoding="utf-8") as file:
        plan = json.load(file)
    for procs in plan["cgroup_procs"]:
        write(procs, "0")
    write("/proc/self/oom_score_adj", str(plan["oom_score_adj"]))
    os.nice(plan["nice"])
    for name, most in plan["rlimits"].items():
        lower_limit(name, most)
    os.umask(0o022)

    sources = sorted({entry["source"] for entry in plan["argv"] if isinstance(entry, dict)} | set(plan["program_dirs"]))
    places = {source: source for source in sources}
    if plan["run_as"] is not None:
        places = stage(sources)
        become(*plan["run_as"])
    die_with(runner_pid)

    arguments = [place_of(entry, places) for entry in plan["argv"]]
    arguments = ["--json-status-fd", str(status_fd), "--seccomp", str(filter_fd), *arguments]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so over exec
        signal.signal(number, signal.SIG_DFL)
    os.chdir("/")
    program = places[plan["program_dirs"][0]] + plan["program"]
    os.execve(program, ["bwrap", "--args", str(arguments_fd(arguments)), "--", *plan["command"]], {})


def write(path: str, text: str) -> None:
    """Write to one of the kernel's files."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def lower_limit(name: str, most: int) -> None:
    """Lower a resource limit, soft and hard; one that is tighter already stays."""
    kind = getattr(resource, name)
    _, hard = resource.getrlimit(kind)
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (value, value))


def stage(sources: list[str]) -> dict[str, str]:
    """Show each source below `STAGE`, in a mount namespace of our own, and say where.

    The user that we become may not pass the folders above them (/root, the state folder), and need not. Bubblewrap's
    `--ro-bind-fd` is no help: it resolves the descriptor to a path again.
    """
    check(libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", MS_REC | MS_PRIVATE)
    opened = {source: os.open(source, os.O_PATH) for source in sources}  # before the mount below hides any of them
    check(libc.mount(b"corral", STAGE.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755,size=64k"), STAGE)
    places = {}
    for source, fd in opened.items():
        place = f"{STAGE}/{source.strip('/')}"
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            os.makedirs(place, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(f"/proc/self/fd/{fd}", place, MS_BIND | MS_REC)
        os.close(fd)
        places[source] = place
    return places


def mount(source: str, target: str, flags: int) -> None:
    """Bind or change the propagation of a mount."""
    check(libc.mount(source.encode(), target.encode(), None, flags, None), f"{source} on {target}")


def become(uid: int, gid: int) -> None:
    """Be an unprivileged user for good."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def die_with(runner_pid: int) -> None:
    """Be killed when the runner ends, or at once if it has ended."""
    check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != runner_pid:
        sys.exit("the runner has ended")


def place_of(entry: Any, places: dict[str, str]) -> str:
    """An argument as it is, or where its source is shown."""
    return places[entry["source"]] if isinstance(entry, dict) else str(entry)


def arguments_fd(arguments: list[str]) -> int:
    """Bubblewrap's arguments in memory: its command line can be read inside, and names the host's paths."""
    fd = os.memfd_create("arguments", 0)
    os.write(fd, b"".join(os.fsencode(argument) + b"\0" for argument in arguments))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def check(result: int, what: str) -> None:
    """Raise the C library's complaint."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
