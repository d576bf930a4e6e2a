"""The sandbox as an engine's container: asked by inspect and wait, signalled by kill."""

import os
import signal
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sandbox.runner.complaint import complain
from sandbox.runner.engine_call import ANSWER_WITHIN_US, Call
from sandbox.runner.journal import Journal
from sandbox.runner.loop import Loop, now_us
from sandbox.runner.redaction import read_values
from sandbox.runner.signals import send

BACK_OFF_US, BACK_OFF_MOST_US = 50_000, 2_000_000
ENGINES_OWN_CODES = (128 + signal.SIGTERM, 128 + signal.SIGKILL)
"""How a container ends that an engine without `live-restore` takes with it as it stops, or clears away at its start."""


class Container:
    """The sandbox as an engine's container: asked by inspect and wait, signalled by kill."""

    gate_pid = None

    def __init__(self, loop: Loop, plan: dict[str, Any], journal: Journal, ended: Callable[..., None]) -> None:
        self._loop, self._journal, self._ended = loop, journal, ended
        self._socket, self._container = plan["engine_socket"], plan["container"]
        self._secrets_dir = plan.get("secrets_dir") or ""
        self.directories: dict[str, int] = {}
        self._back_off_us = BACK_OFF_US
        self._is_watched = self._is_waiting = self._is_stopped = self._is_killed = self._is_told = False
        self._is_away = self._died_unseen = False
        self._init_fd = -1
        self._died_us: int | None = None

    def start(self) -> None:
        """The backend makes the container; there is nothing to watch until its gate is opened or it is stopped."""

    def resume(self, is_opened: bool) -> None:
        """Take over from a runner that died; the container's first process is known again with no engine's help."""
        if (init := self._journal.find("init")) is not None:
            self._hold_init(init["pid"], init["began"])
        if is_opened:
            self._watch()

    def gate_ready(self) -> None:
        """Nothing of it is kept: an engine's container leaves its files on the host."""

    def read_secrets(self, names: list[str]) -> dict[str, bytes]:
        """The secrets, as the host has them."""
        folder = os.open(self._secrets_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return read_values(folder, names)
        finally:
            os.close(folder)

    def opened(self) -> None:
        self._watch()

    def terminate(self) -> None:
        self._is_stopped = True
        self._watch()
        self._kill_call("SIGTERM", self._terminated)

    def kill(self) -> None:
        """Ask the engine; if it does not do it in time, kill the first process inside ourselves."""
        self._watch()
        self._is_stopped = self._is_killed = True
        self._kill_call("SIGKILL", self._killed)
        self._loop.at("kill", now_us() + ANSWER_WITHIN_US, self._kill_ourselves)

    def _kill_call(self, name: str, done: Callable[[int, Any], None]) -> None:
        self._call(f"POST /containers/{self._container}/kill?signal={name}", done)

    def _terminated(self, status: int, _: Any) -> None:
        if status == 0 and not self._is_killed:
            self._loop.at("terminate", now_us() + 1_000_000, self.terminate)

    def _killed(self, status: int, _: Any) -> None:
        if status == 0:
            self._kill_ourselves()
        else:
            self._loop.at("inspect", now_us(), self._inspect)

    def _kill_ourselves(self) -> None:
        if self._is_told:
            return
        send(self._init_fd, signal.SIGKILL)
        self._loop.at("kill", now_us() + ANSWER_WITHIN_US, self.kill)

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._inspect()

    def _inspect(self) -> None:
        self._call(f"GET /containers/{self._container}/json", self._inspected)

    def _inspected(self, status: int, found: Any) -> None:
        if self._is_told:
            return
        if status == 404:
            self._tell(None, error="the container is gone and left no record of its end")
        elif status != 200:
            self._note_silence()
            self._loop.at("inspect", now_us() + self._back_off_us, self._inspect)
            self._back_off_us = min(self._back_off_us * 2, BACK_OFF_MOST_US)
        elif found["State"]["Status"] in ("exited", "dead"):
            self._exited(found["State"])
        elif found["State"]["Status"] == "created" and self._is_killed:
            self._tell(None)  # it never ran, and the backend that would start it finds the end in the journal
        else:
            self._back_off_us, self._is_away = BACK_OFF_US, False
            self._know_init(found["State"]["Pid"])
            self._wait(found["State"]["Status"])
            if self._died_us is not None:  # the engine is behind: what it says next may be nothing at all
                self._loop.at("inspect", now_us() + self._back_off_us, self._inspect)

    def _wait(self, status: str) -> None:
        if self._is_waiting:
            return
        self._is_waiting = True
        # `next-exit` for a container that was made and not started: it is no end
        condition = "next-exit" if status == "created" else "not-running"
        path = f"POST /containers/{self._container}/wait?condition={condition}"
        self._call(path, self._waited, within_us=None)

    def _waited(self, status: int, _: Any) -> None:
        self._is_waiting = False
        if status != 200:
            self._note_silence()
        self._died_us = self._died_us or (now_us() if status == 200 else None)
        self._loop.at("inspect", now_us() + (0 if status == 200 else self._back_off_us), self._inspect)

    def _know_init(self, pid: int) -> None:
        """Remember the container's first process, for the day when the engine is away and a deadline passes."""
        if pid and self._init_fd < 0 and self._hold_init(pid, _began(pid)):
            try:
                self._journal.append("init", pid=pid, began=_began(pid))
            except OSError as error:
                complain(f"journal: {error}")  # only a runner that takes over would need it

    def _hold_init(self, pid: int, began: str) -> bool:
        """Hold it by descriptor; False if it ended, or if its number is another's by now."""
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return False
        if not began or _began(pid) != began:
            os.close(fd)
            return False
        self._init_fd = fd
        self._loop.on_readable(fd, self._init_ended)
        return True

    def _init_ended(self) -> None:
        self._loop.forget(self._init_fd)
        self._died_us, self._died_unseen = now_us(), self._is_away
        self._loop.at("inspect", self._died_us + self._back_off_us, self._inspect)

    def _note_silence(self) -> None:
        self._is_away = True
        self._died_unseen = self._died_unseen or self._died_us is not None

    def _exited(self, state: dict[str, Any]) -> None:
        at_us = self._died_us or now_us() - max(0, time.time_ns() // 1000 - wall_us(state["FinishedAt"]))
        code, error = None if state["Error"] else state["ExitCode"], state["Error"]
        if self._died_unseen and not self._is_stopped and not state["OOMKilled"] and code in ENGINES_OWN_CODES:
            code, error = None, f"a signal ended it while the engine was away, as the engine's own stop does ({code})"
        self._tell(code, at_us=at_us, oom=state["OOMKilled"], error=error)

    def _tell(self, code: int | None, **facts: Any) -> None:
        self._is_told = True
        self._ended(code, **facts)

    def _call(self, request: str, done: Callable[[int, Any], None], within_us: int | None = ANSWER_WITHIN_US) -> None:
        Call(self._loop, self._socket, request, done, within_us)


def _began(pid: int) -> str:
    """When a process began, in the kernel's ticks: with its number, it names one process of this run of the machine."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def wall_us(text: str) -> int:
    """The engine's time stamp as microseconds since the epoch."""
    return int(datetime.fromisoformat(text).timestamp() * 1_000_000)
