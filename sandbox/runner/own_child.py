"""The sandbox as the runner's own child: bubblewrap."""

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from sandbox.runner.journal import Journal
from sandbox.runner.loop import Loop, now_us
from sandbox.runner.redaction import read_values
from sandbox.runner.signals import send

FILTER = "seccomp.bpf"
CHUNK = 65536


class OwnChild:
    """The sandbox as our own child: it dies with us."""

    def __init__(self, loop: Loop, plan: dict[str, Any], _journal: Journal, ended: Callable[..., None]) -> None:
        self._loop, self._plan, self._ended = loop, plan, ended
        self.gate_pid: int | None = None
        self.directories: dict[str, int] = {}
        self._pid = self._init_pid = 0
        self._code = 0
        self._status = self._complaint = b""
        self._monitor_fd = self._gate_fd = self._init_fd = self._status_fd = self._complaint_fd = -1
        self._at_us = 0

    def start(self) -> None:
        self._status_fd, status_out = os.pipe()
        self._complaint_fd, complaint_out = os.pipe()
        filter_fd, nothing = os.open(FILTER, os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)
        step_down = f"{os.path.dirname(os.path.abspath(__file__))}/step_down.py"
        passed = {nothing: 0, complaint_out: 2, status_out: 100, filter_fd: 101}
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in passed.items()]
        actions.append((os.POSIX_SPAWN_DUP2, complaint_out, 1))
        command = [sys.executable, "-I", "-S", "-B", step_down, os.getcwd(), str(os.getpid()), "100", "101"]
        self._pid = os.posix_spawn(sys.executable, command, {}, file_actions=actions)
        for fd in passed:
            os.close(fd)
        self._monitor_fd = os.pidfd_open(self._pid)
        self._loop.on_readable(self._monitor_fd, self._monitor_ended)
        self._loop.on_readable(self._status_fd, self._status_came)
        self._loop.on_readable(self._complaint_fd, self._complaint_came)

    def resume(self, is_opened: bool) -> None:
        self._ended(None, error="the runner of this sandbox was killed, and the sandbox with it")

    def gate_ready(self) -> None:
        """Keep what only a gate shows: who it is, and its folders, which outlive it."""
        if self._init_fd < 0:
            self._status_came()  # it was written before the gate began
        children = _children(self._init_pid)
        if len(children) != 1:
            self._complaint = b"the gate cannot be found among the sandbox's processes"
            self.kill()
            return
        self.gate_pid = children[0]
        self._gate_fd = os.pidfd_open(self.gate_pid)
        for name in self._plan["kept_directories"]:
            path = f"/proc/{self.gate_pid}/root/{name}"
            self.directories[name] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def read_secrets(self, names: list[str]) -> dict[str, bytes]:
        """The secrets inside, whose folder is kept like the others."""
        place = self._plan["secrets_dir"]
        if place not in self.directories:
            self.directories[place] = os.open(f"/proc/{self.gate_pid}/root{place}", os.O_RDONLY | os.O_DIRECTORY)
        return read_values(self.directories[place], names)

    def opened(self) -> None:
        self._loop.forget(self._complaint_fd)  # from here on the job could write there
        os.close(self._complaint_fd)

    def terminate(self) -> None:
        send(self._gate_fd, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the first process inside, and so all of them; the parent outside then tells the code."""
        send(self._init_fd if self._init_fd >= 0 else self._monitor_fd, signal.SIGKILL)

    def _status_came(self) -> None:
        data = os.read(self._status_fd, CHUNK)
        self._status += data
        if not data:
            self._loop.forget(self._status_fd)
        for line in self._status.split(b"\n")[:-1]:
            if self._init_fd < 0 and (pid := json.loads(line).get("child-pid")):
                self._init_pid, self._init_fd = pid, os.pidfd_open(pid)

    def _complaint_came(self) -> None:
        data = os.read(self._complaint_fd, CHUNK)
        self._complaint = (self._complaint + data)[:4096]
        if not data:
            self._loop.forget(self._complaint_fd)

    def _monitor_ended(self) -> None:
        """The main command ended; whatever else is inside is killed, and we wait until it is gone."""
        self._loop.forget(self._monitor_fd)
        self._at_us = now_us()
        self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        if self._init_fd < 0:
            self._all_gone()
            return
        send(self._init_fd, signal.SIGKILL)
        self._loop.on_readable(self._init_fd, self._all_gone)

    def _all_gone(self) -> None:
        self._loop.forget(self._init_fd)
        error = self._complaint.decode(errors="replace").strip().rpartition("\n")[2]
        code: int | None = self._code
        if self._code < 0:
            code, error = None, f"the sandbox was killed from outside (signal {-self._code})"
        self._ended(code, at_us=self._at_us, oom=_oom_kills(self._plan["oom_files"]) > 0, error=error)


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _oom_kills(files: list[str]) -> int:
    """Kills by the kernel for want of memory, in the sandbox's cgroup (`oom_kill N` in both versions)."""
    kills = 0
    for path in files:
        with open(path, encoding="ascii") as file:
            kills += sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    return kills
