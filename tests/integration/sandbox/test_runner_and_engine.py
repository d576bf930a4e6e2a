"""The runner beside a container, when the engine misbehaves: away, failing, slow, dropping connections, telling late.

The engine is a stand-in that speaks its HTTP on a unix socket, so that it can be made to fail on purpose.
"""

import json
import os
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sandbox import boot_clock, gate
from sandbox.contract import Exit, SandboxFault, StopReason
from sandbox.runner_link import RunnerLink, spawn, write_plan
from tests.integration.sandbox.lives import until

RUNNING = {"Status": "running", "Running": True, "Pid": 0, "ExitCode": 0, "OOMKilled": False, "Error": ""}


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """One container, in the state it is told to be in."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.state: dict[str, Any] | None = dict(RUNNING)
        self.failing = 0
        self.kills: list[str] = []
        self.asked = 0
        self.changed = threading.Condition()
        self.connections: list[socket.socket] = []
        super().__init__(str(path), Answers)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def become(self, **changes: Any) -> None:
        with self.changed:
            self.state = {**(self.state or RUNNING), **changes}
            self.changed.notify_all()

    def end(self, code: int, **changes: Any) -> None:
        seconds, rest = divmod(time.time_ns(), 10**9)
        finished = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"
        self.become(Status="exited", Running=False, ExitCode=code, FinishedAt=finished, **changes)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def close(self) -> None:
        """Die: what is being asked is cut off."""
        for each in self.connections:
            if each.fileno() >= 0:
                each.shutdown(socket.SHUT_RDWR)
        self.shutdown()
        self.server_close()
        Path(str(self.server_address)).unlink(missing_ok=True)


class Answers(BaseHTTPRequestHandler):
    server: Engine

    def address_string(self) -> str:
        return "runner"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is said."""

    def do_GET(self) -> None:
        self.server.asked += 1
        if self.server.failing > 0:
            self.server.failing -= 1
            self.answer(500, {"message": "no"})
        elif self.server.state is None:
            self.answer(404, {"message": "No such container"})
        else:
            self.answer(200, {"State": self.server.state})

    def do_POST(self) -> None:
        if "/kill" in self.path:
            self.server.kills.append(self.path.rpartition("=")[2])
            self.answer(204, None)
            if self.server.kills[-1] == "SIGKILL":
                self.server.end(137)
            return
        with self.server.changed:
            if not self.server.changed.wait_for(lambda: not (self.server.state or {}).get("Running"), 5):
                return
        self.answer(200, {"StatusCode": 0})

    def answer(self, status: int, body: Any) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path / "engine.sock")
    yield made
    made.close()


@pytest.fixture
def link(tmp_path: Path) -> Iterator[RunnerLink]:
    """A runner whose gate is a FIFO that this test reads."""
    folder = tmp_path / "state"
    folder.mkdir()
    gate.make_folder(folder / "gate", os.getuid())
    write_plan(folder, a_plan(tmp_path))
    made = RunnerLink(folder)
    yield made
    made.finish()


def a_plan(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "engine",
        "engine_socket": str(tmp_path / "engine.sock"),
        "container": "corral-att_1",
        "boot_id": boot_clock.boot_id(),
        "unreachable_at_us": None,
        "time_limit_us": 60_000_000,
        "grace_us": 200_000,
        "log_bytes_max": 1 << 20,
        "log_bytes_per_second": 1 << 20,
    } | changes


def opened(link: RunnerLink, tmp_path: Path) -> None:
    """Open the gate; what the gate would do is done by a thread here."""
    word: list[bytes] = []
    waiting = threading.Thread(target=lambda: word.append((tmp_path / "state/gate/go").read_bytes()))
    waiting.start()
    assert link.open() is None
    waiting.join(10)
    assert word == [gate.OPEN]


def the_end(link: RunnerLink) -> Exit:
    found = link.wait(20)
    assert found is not None
    return found


def test_the_engine_tells_the_end(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    opened(link, tmp_path)
    assert link.wait(0.2) is None
    engine.end(7)
    end = the_end(link)
    assert (end.exit_code, end.stop_reason, end.error, end.is_gate_opened) == (7, None, "", True)
    assert 200_000 <= end.run_us < 10_000_000


def test_an_engine_that_is_away_says_nothing_of_the_job(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    opened(link, tmp_path)
    until(lambda: engine.asked > 0)
    engine.close()
    assert link.wait(1.0) is None
    again = Engine(tmp_path / "engine.sock")
    again.end(9)
    assert the_end(link).exit_code == 9
    again.close()


def test_answers_of_500_are_no_answers(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    engine.failing = 4
    opened(link, tmp_path)
    until(lambda: engine.failing == 0)
    engine.end(3)
    assert the_end(link).exit_code == 3


def test_an_end_that_was_told_late_is_dated_by_the_engine(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    """The container ended long ago (here, before it began): the runner's own clock at the telling does not count."""
    engine.failing = 1
    engine.end(0)
    opened(link, tmp_path)
    end = the_end(link)
    assert (end.exit_code, end.run_us) == (0, 0)


def test_a_container_that_is_gone_is_a_fault(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    opened(link, tmp_path)
    with engine.changed:
        engine.state = None
        engine.changed.notify_all()
    end = the_end(link)
    assert end.exit_code is None
    assert "gone" in end.error


def test_the_engines_complaint_is_kept(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    engine.end(127, Error="OCI runtime create failed")
    opened(link, tmp_path)
    end = the_end(link)
    assert (end.exit_code, end.error) == (None, "OCI runtime create failed")


def test_a_kill_for_want_of_memory_is_told(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    opened(link, tmp_path)
    engine.end(137, OOMKilled=True)
    assert the_end(link).is_oom_killed


def test_sigterm_then_sigkill(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    opened(link, tmp_path)
    link.stop(StopReason.CANCELLED, 300_000)
    end = the_end(link)
    assert engine.kills == ["SIGTERM", "SIGKILL"]
    assert (end.exit_code, end.stop_reason) == (137, StopReason.CANCELLED)
    assert end.stop_us >= 300_000


def test_the_deadline_is_kept_when_the_engine_is_away(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    """What cannot be asked of the engine is done without it."""
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    engine.become(Pid=child)
    opened(link, tmp_path)
    until(lambda: engine.asked > 0)
    assert link.wait(0.2) is None
    engine.close()
    link.stop(StopReason.UNREACHABLE, 0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -9
    again = Engine(tmp_path / "engine.sock")
    again.end(137)
    assert the_end(link).stop_reason is StopReason.UNREACHABLE
    again.close()


@pytest.mark.parametrize(("code", "found"), [(143, None), (137, None), (0, 0), (9, 9)])
def test_what_an_engine_takes_with_it_is_no_failure_of_the_jobs(
    engine: Engine, link: RunnerLink, tmp_path: Path, code: int, found: int | None
) -> None:
    """An engine that stops without `live-restore` ends its containers by a signal, once it answers no more."""
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    engine.become(Pid=child)
    opened(link, tmp_path)
    until(lambda: b'"init"' in (tmp_path / "state/journal.jsonl").read_bytes())
    engine.close()
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
    assert link.wait(0.3) is None
    again = Engine(tmp_path / "engine.sock")
    again.end(code)
    end = the_end(link)
    assert end.exit_code == found
    assert ("the engine was away" in end.error) == (found is None)
    again.close()


def test_a_signal_to_itself_is_the_jobs_own_end_while_the_engine_answers(
    engine: Engine, link: RunnerLink, tmp_path: Path
) -> None:
    opened(link, tmp_path)
    engine.end(137)
    end = the_end(link)
    assert (end.exit_code, end.error) == (137, "")


def test_the_deadline_is_kept_when_engine_and_runner_both_die(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    engine.become(Pid=child)
    opened(link, tmp_path)
    until(lambda: b'"init"' in (tmp_path / "state/journal.jsonl").read_bytes())
    engine.close()
    os.kill(link.state().runner_pid, signal.SIGKILL)
    link.stop(StopReason.UNREACHABLE, 0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -9
    again = Engine(tmp_path / "engine.sock")
    again.end(137)
    assert the_end(link).stop_reason is StopReason.UNREACHABLE
    again.close()


def test_an_engine_that_forgets_to_tell_is_asked(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    """The wait hangs; the end of the first process is seen all the same."""
    child = os.posix_spawn("/bin/sleep", ["sleep", "0.5"], {})
    engine.become(Pid=child)
    opened(link, tmp_path)
    os.waitpid(child, 0)
    with engine.changed:  # nobody is woken
        engine.state = {**RUNNING, "Status": "exited", "ExitCode": 6, "FinishedAt": "2001-01-01T00:00:00Z"}
    end = the_end(link)
    assert end.exit_code == 6
    assert 300_000 < end.run_us < 3_000_000


def test_after_a_restart_of_the_machine_everything_is_past(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    write_plan(tmp_path / "state", a_plan(tmp_path, boot_id="another"))
    assert link.state().exit is not None
    end = the_end(link)
    assert (end.exit_code, end.is_gate_opened, end.run_us) == (None, False, 0)
    assert "restarted" in end.error
    assert engine.asked == 0


def test_a_journal_that_cannot_be_written_keeps_the_gate_shut(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    (tmp_path / "state/journal.jsonl").mkdir()
    with pytest.raises(Exception, match="ended at once"):
        link.open()
    (tmp_path / "state/journal.jsonl").rmdir()


def test_a_runner_that_comes_up_after_the_removal_leaves(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    """Two were started at once, and the first has done everything before the second is there."""
    opened(link, tmp_path)
    link.finish()
    late = spawn(tmp_path / "state")
    until(lambda: not Path(f"/proc/{late}").exists() or "Z" in Path(f"/proc/{late}/stat").read_text().split()[2])
    assert not link.is_running()
    assert "removed" in the_end(link).error
    with pytest.raises(SandboxFault, match="removed"):
        link.state()


def test_a_removed_one_can_be_removed_again(engine: Engine, link: RunnerLink, tmp_path: Path) -> None:
    opened(link, tmp_path)
    engine.end(4)
    assert the_end(link).exit_code == 4
    link.finish()
    link.finish()
    assert the_end(link).exit_code == 4


def test_a_gate_that_was_journalled_open_and_still_waits_is_opened(
    engine: Engine, link: RunnerLink, tmp_path: Path
) -> None:
    """A runner may die between its journal and the gate."""
    word: list[bytes] = []
    state = tmp_path / "state"
    Path(state / "journal.jsonl").write_text(
        "".join(
            json.dumps({"what": what, "boot_id": boot_clock.boot_id(), "at_us": boot_clock.now_us(), "wall_us": 1})
            + "\n"
            for what in ("started", "opened")
        )
    )
    waiting = threading.Thread(target=lambda: word.append((state / "gate/go").read_bytes()))
    waiting.start()
    assert link.state().is_gate_opened
    waiting.join(10)
    assert word == [gate.OPEN]
