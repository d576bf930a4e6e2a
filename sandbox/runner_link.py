"""How a backend speaks to the runner beside a sandbox: starts it, finds it again, asks it."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import boot_clock
from sandbox.contract import Exit, LaunchOrder, SandboxFault, StopReason

ROOT = Path(__file__).resolve().parents[1]
RUN = "import sys; sys.path.append(sys.argv[1]); from sandbox.runner.life import main; main(sys.argv[2])"
"""The root comes after the standard library, so that nothing beside us can stand in for it."""
PLAN, JOURNAL, SOCKET, LOG = "run.json", "journal.jsonl", "runner.sock", "log"
FINISHED = "finished"
"""There from the moment on that no runner is wanted in a folder any more."""
ANSWER_WITHIN_S = 10.0
"""Longest wait for a runner to come up, or to answer anything but `wait`."""
POLL_S = 0.005

_children: dict[int, Path] = {}
"""Runners that this process started and that may have ended since, with their folders."""


class RunnerAway(SandboxFault):
    """The runner neither answers nor can be started again."""

    code = "runner_away"


@dataclass(frozen=True, slots=True)
class RunnerState:
    """What the runner knows at one moment."""

    runner_pid: int
    gate_pid: int | None
    """The host's id of the gate, for a runner of kind `bubblewrap`, once it waits; None before, and for an engine."""
    is_gate_opened: bool
    stop_reason: StopReason | None
    exit: Exit | None

    @property
    def error(self) -> str:
        """Why the sandbox ended before its time, or could not be made; empty if nothing is known to be wrong."""
        return self.exit.error if self.exit else ""


def deadlines(order: LaunchOrder) -> dict[str, Any]:
    """The part of the plan that every kind shares, with this machine's boot id."""
    return {
        "boot_id": boot_clock.boot_id(),
        "unreachable_at_us": order.unreachable_at_us,
        "time_limit_us": order.time_limit_us,
        "grace_us": order.grace_us,
        "log_bytes_max": order.log_bytes_max,
        "log_bytes_per_second": order.log_bytes_per_second,
        "secrets": list(order.secrets),
    }


def engine_plan(
    order: LaunchOrder, engine_socket: str, container: str, secrets_dir: Path | None = None
) -> dict[str, Any]:
    """The plan of a runner that accompanies an engine's container: its name or id, and the engine's unix socket.

    `secrets_dir` is where the host sees the files of the secrets, whose values the runner blacks out of the log.
    """
    return {
        **deadlines(order),
        "kind": "engine",
        "engine_socket": engine_socket,
        "container": container,
        "secrets_dir": str(secrets_dir) if order.secrets else None,
    }


def write_plan(state_dir: Path, plan: Mapping[str, Any]) -> None:
    """Put the runner's orders in the state folder, whole or not at all, on disk before it returns."""
    draft = state_dir / f"{PLAN}.new"
    with draft.open("w") as file:
        json.dump(plan, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(state_dir / PLAN)


def spawn(state_dir: Path) -> int:
    """Start a runner for this folder and return its pid at once; if one already runs, the second ends by itself."""
    _reap()
    command = [sys.executable, "-I", "-S", "-B", "-c", RUN, str(ROOT), str(state_dir)]
    with (state_dir / "runner.err").open("ab") as complaints:
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, complaints.fileno(), 1),
            (os.POSIX_SPAWN_DUP2, complaints.fileno(), 2),
        ]
        pid = os.posix_spawn(
            sys.executable,
            command,
            {},
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGTERM, signal.SIGINT),
        )
    _children[pid] = state_dir
    return pid


def is_given(pid: int, state_dir: Path) -> None:
    """Know a runner that was started without a folder, and is about to be given this one."""
    _reap()
    _children[pid] = state_dir


def journalled_exit(state_dir: Path) -> Exit | None:
    """The end that the journal tells of; None if it tells of none. Needs no runner."""
    try:
        lines = (state_dir / JOURNAL).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    entries = (json.loads(line) for line in lines if line.startswith(b'{"what": "exited"') and line.endswith(b"}"))
    return next((exit_of(entry) for entry in entries), None)


def exit_of(entry: Mapping[str, Any]) -> Exit:
    """An end as the journal writes it."""
    return Exit(
        exit_code=entry["code"],
        is_oom_killed=entry["oom"],
        stop_reason=StopReason(entry["reason"]) if entry["reason"] else None,
        run_us=entry["run_us"],
        stop_us=entry["stop_us"],
        error=entry["error"],
        is_gate_opened=entry["is_gate_opened"],
    )


class RunnerLink:
    """One sandbox's runner. Every command may be repeated; a runner that died is started again first."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def state(self) -> RunnerState:
        """What the runner knows now."""
        return _state(self._ask({"do": "state"}))

    def wait_gate(self, timeout_s: float = ANSWER_WITHIN_S) -> RunnerState:
        """The state once the gate waits inside, or the sandbox ended, or could not be made.

        Raises:
            RunnerAway: none of these within the time.
        """
        return _state(self._ask({"do": "wait_gate"}, timeout_s))

    def open(self) -> StopReason | None:
        """Open the gate; None if it is open, else the reason for which the runner refused and ends the sandbox."""
        refused = self._ask({"do": "open"}).get("refused")
        return StopReason(refused) if refused else None

    def extend(self, unreachable_at_us: int) -> None:
        """Move the deadline for silence forward; an earlier one than it has changes nothing."""
        self._ask({"do": "extend", "unreachable_at_us": unreachable_at_us})

    def stop(self, reason: StopReason, grace_us: int) -> None:
        """SIGTERM now, SIGKILL when the grace is over; the first reason counts. Returns at once."""
        self._ask({"do": "stop", "reason": reason.value, "grace_us": grace_us})

    def wait(self, timeout_s: float | None) -> Exit | None:
        """How the sandbox ended; None if it still runs when the time is up."""
        if (ended := journalled_exit(self._state_dir)) is not None:
            return ended
        try:
            answer = self._ask({"do": "wait"}, timeout_s, is_late_fine=True)
        except TimeoutError:
            return None
        return exit_of(answer["exit"])

    def directory_fd(self, name: str) -> int:
        """A new descriptor of the folder `out` or `scratch` inside, kept since the gate; the caller closes it.

        Raises:
            SandboxFault: the runner holds none (its kind is `engine`, or it was started anew since).
        """
        with self._connection(ANSWER_WITHIN_S) as connection:
            _send(connection, {"do": "directory", "name": name})
            data, fds, _, _ = socket.recv_fds(connection, 4096, 1)
        if not fds:
            raise SandboxFault(f"the runner holds no descriptor of /{name}: {data.decode(errors='replace').strip()}")
        return fds[0]

    def finish(self) -> None:
        """Kill what is left and let the runner end. Does not start one if none runs; one that is coming up ends too."""
        (self._state_dir / FINISHED).touch()  # before the look: a runner looks for it after it can be seen
        if not self.is_running():
            return
        try:
            self._ask({"do": "finish"})
        except SandboxFault:  # it ended while we asked, as it should
            if self.is_running():
                raise
        _until(lambda: not self.is_running(), ANSWER_WITHIN_S)
        _reap()

    def is_running(self) -> bool:
        """Whether a runner answers in this folder."""
        try:
            with _connect(self._state_dir, 1.0):
                return True
        except OSError:
            return False

    def _ask(
        self, request: Mapping[str, Any], timeout_s: float | None = ANSWER_WITHIN_S, is_late_fine: bool = False
    ) -> dict[str, Any]:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._connection(ANSWER_WITHIN_S) as connection:
                connection.settimeout(_left(deadline))
                try:
                    _send(connection, request)
                    line = _line(connection)
                except TimeoutError as error:
                    if is_late_fine:
                        raise
                    raise RunnerAway(f"the runner did not answer to {request['do']}") from error
                except OSError:
                    line = b""  # it died while we asked
            if line:
                return _checked(json.loads(line))

    def _connection(self, timeout_s: float) -> socket.socket:
        """A connection to the runner, which is started if none listens."""
        deadline = time.monotonic() + timeout_s
        spawned = next((pid for pid, folder in list(_children.items()) if folder == self._state_dir), None)
        while True:
            try:
                return _connect(self._state_dir, timeout_s)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RunnerAway(f"no runner came up: {_complaint(self._state_dir)}") from error
                if not (self._state_dir / PLAN).exists():
                    raise SandboxFault("no sandbox was made here, or its record is gone") from error
            if spawned is None:
                spawned = spawn(self._state_dir)
            elif (code := _end_of(spawned)) is not None:
                if code != 0:
                    raise RunnerAway(f"the runner ended at once: {_complaint(self._state_dir)}")
                if _is_finished(self._state_dir):
                    raise SandboxFault("the sandbox was removed")
                spawned = None  # there was another, or ours has died since: look again
            time.sleep(POLL_S)


def _connect(state_dir: Path, timeout_s: float) -> socket.socket:
    """Connect through a descriptor of the folder: its path may be longer than a socket's address holds."""
    folder = os.open(state_dir, os.O_PATH | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(f"/proc/self/fd/{folder}/{SOCKET}")
    except OSError:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection


def _send(connection: socket.socket, request: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(request).encode() + b"\n")


def _line(connection: socket.socket) -> bytes:
    """One answer; empty if the runner ended before it was whole."""
    data = bytearray()
    while not data.endswith(b"\n"):
        if not (part := connection.recv(65536)):
            return b""
        data += part
    return bytes(data)


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if answer.get("error") and "exit" not in answer:
        raise SandboxFault(answer["error"])
    return answer


def _state(answer: Mapping[str, Any]) -> RunnerState:
    return RunnerState(
        runner_pid=answer["runner_pid"],
        gate_pid=answer["gate_pid"],
        is_gate_opened=answer["is_gate_opened"],
        stop_reason=StopReason(answer["stop_reason"]) if answer["stop_reason"] else None,
        exit=exit_of(answer["exit"]) if answer["exit"] else None,
    )


def _complaint(state_dir: Path) -> str:
    """The last line that a runner wrote before it ended."""
    try:
        lines = (state_dir / "runner.err").read_text(errors="replace").split("\n")
    except FileNotFoundError:
        return "the state folder is gone"
    return next((line for line in reversed(lines) if line), "no complaint")


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.001)


def _until(is_done: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not is_done():
        if time.monotonic() > deadline:
            raise RunnerAway("the runner does not end")
        time.sleep(POLL_S)


def _end_of(pid: int) -> int | None:
    """The exit code of a runner of ours; None while it runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        ended, status = pid, 0  # another thread took note of its end
    if not ended:
        return None
    _children.pop(pid, None)
    code = os.waitstatus_to_exitcode(status)
    return max(code, 0)  # killed is no failure of its own


def _is_finished(state_dir: Path) -> bool:
    journal = state_dir / JOURNAL
    return journal.exists() and b'{"what": "finished"' in journal.read_bytes()


def _reap() -> None:
    """Take note of runners of ours that ended, so that none stays a zombie."""
    for pid in list(_children):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            ended = pid  # a forked copy of ours is not its parent
        if ended:
            _children.pop(pid, None)
