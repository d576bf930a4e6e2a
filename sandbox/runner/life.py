"""One sandbox's life: the commands, the deadlines, the journal."""

import errno
import fcntl
import json
import os
from typing import Any

from sandbox.runner.askers import Askers, Client
from sandbox.runner.complaint import complain
from sandbox.runner.container import Container
from sandbox.runner.journal import Journal, boot_id
from sandbox.runner.loop import Loop, now_us
from sandbox.runner.own_child import OwnChild
from sandbox.runner.pump import Pump

GO, LOCK, PLAN, DEADLINE, FINISHED = "gate/go", "runner.lock", "run.json", "deadline", "finished"
WHY = "gate/stop"
"""What the job finds at /.corral/stop."""
GATE_POLL_US, GO_HELD_US = 3_000, 1_000_000


class Runner:
    """One sandbox's life: the commands, the deadlines, the journal."""

    def __init__(self) -> None:
        with open(PLAN, encoding="utf-8") as file:
            self._plan = json.load(file)
        self._loop, self._journal = Loop(), Journal()
        self._opened, self._stop = self._journal.find("opened"), self._journal.find("stop")
        self._exited = self._journal.find("exited")
        self._secrets: list[str] = self._plan.get("secrets", [])  # plans of before there were any have none
        most, rate = self._plan["log_bytes_max"], self._plan["log_bytes_per_second"]
        self._pump = Pump(self._loop, most, rate, is_shut=bool(self._secrets))
        kind = OwnChild if self._plan["kind"] == "bubblewrap" else Container
        self._sandbox: OwnChild | Container = kind(self._loop, self._plan, self._journal, self._ended)
        self._unreachable_us = _latest(self._plan["unreachable_at_us"])
        self._go_fd = -1
        self._seek_until_us = 0
        self._is_finishing = False
        self._askers = Askers(self._loop, self._obey)

    @property
    def is_finished(self) -> bool:
        """Whether the sandbox was removed: there is nothing to run for."""
        return self._journal.find("finished") is not None

    def run(self) -> None:
        self._askers.listen()
        if os.path.exists(FINISHED):  # told to end before it could be asked
            self._askers.close()
            return
        if self._exited is None:
            self._begin()
        while not (self._is_finishing and self._exited):
            self._loop.turn()
        self._note_finished()
        self._askers.close()
        self._askers.answer_all("finish")

    def _note_finished(self) -> None:
        """A runner that was started beside us, and comes up only now, leaves at once."""
        try:
            self._journal.append("finished")
        except OSError as error:
            complain(f"journal: {error}")  # it finds the file that told us to end

    def _begin(self) -> None:
        if self._plan["boot_id"] != boot_id():
            self._ended(None, error="the machine was restarted, and the sandbox ended with it")
            return
        self._loop.at("unreachable", self._unreachable_us, lambda: self._order_stop("unreachable"))
        if self._journal.find("started") is None:
            self._journal.append("started", runner_pid=os.getpid())
            self._sandbox.start()
            if self._plan["kind"] == "bubblewrap":
                self._seek_gate()
            return
        self._sandbox.resume(self._opened is not None)
        if self._exited is None and self._opened:
            self._know_secrets()
        if self._exited is None and self._opened:
            self._limit_time()
            self._seek_until_us = now_us() + GO_HELD_US  # the one before may have died between its journal and the gate
            self._seek_gate()
        if self._exited is None and self._stop:
            self._carry_out_stop()

    # -- the gate

    def _seek_gate(self) -> None:
        """The gate waits as soon as the FIFO can be opened for writing without blocking."""
        if self._exited is not None or self._go_fd >= 0:
            return
        try:
            self._go_fd = os.open(GO, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if self._opened is None or now_us() < self._seek_until_us:
                self._loop.at("gate", now_us() + GATE_POLL_US, self._seek_gate)
            return
        if self._opened:
            self._write_go()
            return
        self._sandbox.gate_ready()
        self._answer_gate()
        if self._askers.is_waiting("open"):
            self._open()

    def _open(self) -> None:
        """Open the gate for all who asked, unless it is too late; past deadlines are looked at first."""
        if self._opened is None and self._unreachable_us is not None and now_us() >= self._unreachable_us:
            self._order_stop("unreachable")
        if self._opened is None and self._stop is None and self._exited is None:
            if self._go_fd < 0:
                self._seek_gate()
                return
            if not self._know_secrets():
                self._askers.answer_all("open", error="its secrets cannot be read, and so not be kept out of its log")
                return
            try:
                self._opened = self._journal.append("opened")
            except OSError as error:
                self._askers.answer_all("open", error=f"the journal cannot be written: {error.strerror}")
                return
            self._write_go()
            self._sandbox.opened()
            self._limit_time()
        self._askers.answer_all("open", **self._refusal())

    def _know_secrets(self) -> bool:
        """Read what the job may read, so that its log holds none of it; whether that was possible."""
        if not self._secrets:
            return True
        try:
            self._pump.black_out(self._sandbox.read_secrets(self._secrets))
        except OSError as error:
            complain(f"secrets: {error}")
            return False
        return True

    def _refusal(self) -> dict[str, str]:
        if self._opened:
            return {}
        return {"refused": self._stop["reason"]} if self._stop else {"error": (self._exited or {}).get("error", "")}

    def _write_go(self) -> None:
        try:
            os.write(self._go_fd, b"open\n")
        except BrokenPipeError:
            complain("the gate has gone, or opens its FIFO anew")  # its end is told by whoever watches it
            os.close(self._go_fd)
            self._go_fd = -1
            self._seek_until_us = self._seek_until_us or now_us() + GO_HELD_US
            self._loop.at("gate", now_us() + GATE_POLL_US, self._seek_gate)
            return
        # Held a while: a gate that was just opening it anew, after a runner's death, must find the word.
        self._loop.at("go", now_us() + GO_HELD_US, lambda: os.close(self._go_fd))

    def _limit_time(self) -> None:
        if self._opened:
            limit_us = self._opened["at_us"] + self._plan["time_limit_us"]
            self._loop.at("time_limit", limit_us, lambda: self._order_stop("time_limit"))

    # -- the end

    def _order_stop(self, reason: str, grace_us: int | None = None) -> None:
        """SIGTERM now and SIGKILL after the grace; a later order can only shorten it. A waiting gate needs no grace."""
        if self._exited:
            return
        grace_us = self._plan["grace_us"] if grace_us is None else grace_us
        if self._stop is None:
            facts = {"reason": reason, "grace_us": grace_us if self._opened else 0}
            try:
                self._stop = self._journal.append("stop", **facts)
            except OSError as error:
                complain(f"journal: {error}")  # it must stop all the same
                self._stop = {"what": "stop", "at_us": now_us(), **facts}
            self._carry_out_stop()
        elif now_us() + grace_us < self._stop["at_us"] + self._stop["grace_us"]:
            self._stop = {**self._stop, "grace_us": now_us() + grace_us - self._stop["at_us"]}
            self._carry_out_stop()

    def _carry_out_stop(self) -> None:
        stop = self._stop or {}
        kill_us = stop["at_us"] + stop["grace_us"]
        if now_us() < kill_us:
            _tell_why(stop["reason"])
            self._sandbox.terminate()
        self._loop.at("grace", kill_us, self._sandbox.kill)

    def _ended(self, code: int | None, at_us: int | None = None, oom: bool = False, error: str = "") -> None:
        """Everything inside is gone: take the last of its output, write down how it ended, tell who waits."""
        at_us = now_us() if at_us is None else at_us
        stop_us = self._stop["at_us"] if self._stop else at_us
        is_same_boot = self._plan["boot_id"] == boot_id()
        facts = {
            "code": code if self._opened else None,
            "oom": oom,
            "reason": self._stop["reason"] if self._stop else None,
            "run_us": max(0, min(stop_us, at_us) - self._opened["at_us"]) if self._opened and is_same_boot else 0,
            "stop_us": max(0, at_us - stop_us) if is_same_boot else 0,
            "error": error if self._opened or self._stop or error else "the gate ended before it was opened",
            "is_gate_opened": self._opened is not None,
        }
        self._pump.drain()
        self._record_end(facts)

    def _record_end(self, facts: dict[str, Any]) -> None:
        try:
            self._exited = self._journal.append("exited", **facts)
        except OSError as error:  # a full disk: the end is not told until it is written down
            complain(f"journal: {error}")
            self._loop.at("journal", now_us() + 1_000_000, lambda: self._record_end(facts))
            return
        for name in ("unreachable", "time_limit", "grace", "gate", "log"):
            self._loop.at(name, None, self._seek_gate)
        self._askers.answer_all("wait", exit=self._exited)
        self._answer_gate()
        self._askers.answer_all("open", **self._refusal())

    # -- the commands

    def _obey(self, client: Client, request: dict[str, Any]) -> None:
        what = request["do"]
        if what == "state":
            client.answer(**self._state())
        elif what == "directory":
            fd = self._sandbox.directories.get(request["name"])
            if fd is not None:
                os.lseek(fd, 0, os.SEEK_SET)
            client.answer((fd,) if fd is not None else (), error="" if fd is not None else "not kept")
        elif what == "extend":
            self._extend(request["unreachable_at_us"])
            client.answer()
        elif what == "stop":
            self._order_stop(request["reason"], request["grace_us"])
            client.answer()
        else:
            self._askers.add(what, client)
            self._look_after(what)

    def _look_after(self, what: str) -> None:
        """Answer those who wait for something, if it is there already; else see to it that it comes."""
        if what == "open":
            self._open()
        elif what == "finish":
            self._is_finishing = True
            if self._plan["kind"] == "bubblewrap":
                self._order_stop("removed", 0)
            elif self._exited is None:  # the backend removes the container
                self._ended(None, error="it was removed before its end")
        elif what == "wait" and self._exited:
            self._askers.answer_all("wait", exit=self._exited)
        elif what == "wait_gate":
            self._seek_gate()
            if self._go_fd >= 0 or self._opened or self._exited:
                self._answer_gate()

    def _answer_gate(self) -> None:
        self._askers.answer_all("wait_gate", **self._state())

    def _state(self) -> dict[str, Any]:
        return {
            "runner_pid": os.getpid(),
            "gate_pid": self._sandbox.gate_pid,
            "is_gate_opened": self._opened is not None,
            "stop_reason": self._stop["reason"] if self._stop else None,
            "exit": self._exited,
        }

    def _extend(self, unreachable_at_us: int) -> None:
        """Only ever later; kept on disk for a runner that takes over, within this run of the machine."""
        if self._unreachable_us is None or unreachable_at_us <= self._unreachable_us:
            return
        try:
            with open(f"{DEADLINE}.new", "w", encoding="ascii") as file:
                file.write(str(unreachable_at_us))
            os.replace(f"{DEADLINE}.new", DEADLINE)
        except OSError as error:
            complain(f"deadline: {error}")  # who takes over would stop it too early, and never too late
        self._unreachable_us = unreachable_at_us
        if self._exited is None:
            self._loop.at("unreachable", unreachable_at_us, lambda: self._order_stop("unreachable"))


def _latest(planned_us: int | None) -> int | None:
    """The deadline for silence: as planned, or as it was moved since."""
    if planned_us is None or not os.path.exists(DEADLINE):
        return planned_us
    with open(DEADLINE, encoding="ascii") as file:
        return max(planned_us, int(file.read()))


def _tell_why(reason: str) -> None:
    """Let the job read why it is stopped; where that cannot be written, it is stopped all the same."""
    try:
        fd = os.open(f"{WHY}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(fd, f"{reason}\n".encode())
            os.fchmod(fd, 0o444)  # the job is another user; the folder is shown to it read-only
        finally:
            os.close(fd)
        os.replace(f"{WHY}.new", WHY)
    except OSError as error:
        complain(f"reason: {error}")


def main(state_dir: str) -> None:
    """Be the runner of this folder, unless there is one. Whatever descriptors the agent left open are no one's here."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(state_dir)
    os.umask(0o077)
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    runner = Runner()
    if not runner.is_finished:
        runner.run()
