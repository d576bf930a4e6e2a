"""Runners started ahead of need: used when they live, done without when they do not, gone with who started them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox import boot_clock, gate
from sandbox.runner_link import RunnerLink, write_plan
from sandbox.runner_spare import SpareRunners


def until(holds: Callable[[], bool], within_s: float = 30.0) -> None:
    deadline, pause = time.monotonic() + within_s, threading.Event()
    while not holds():
        assert time.monotonic() < deadline, "it has not come about"
        pause.wait(0.01)


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """The folder of a container that is never made: enough for a runner to come up and wait."""
    folder = tmp_path / "state"
    folder.mkdir()
    gate.make_folder(folder / "gate", os.getuid())
    plan = {"boot_id": boot_clock.boot_id(), "unreachable_at_us": None, "time_limit_us": 1, "grace_us": 0}
    write_plan(
        folder,
        plan
        | {"log_bytes_max": 1000, "log_bytes_per_second": 1000}
        | {"kind": "engine", "engine_socket": str(tmp_path / "none.sock"), "container": "none"},
    )
    yield folder
    RunnerLink(folder).finish()


@pytest.fixture
def spares() -> Iterator[SpareRunners]:
    made = SpareRunners(most=1)
    yield made
    made.close()


def waiting() -> set[int]:
    """Children of ours that wait for a folder: they have not left ours yet."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"sandbox.runner.life" in line and b"os.read(0" in line and parent == os.getpid():
            found.add(int(process.name))
    return found


def test_one_that_waits_becomes_the_folder_s_runner(spares: SpareRunners, state_dir: Path) -> None:
    before = waiting()
    spares.refill()
    (pid,) = waiting() - before
    spares.start(state_dir)
    assert RunnerLink(state_dir).state().runner_pid == pid
    assert (state_dir / "runner.err").read_bytes() == b""


def test_without_one_a_new_runner_is_started(spares: SpareRunners, state_dir: Path) -> None:
    spares.start(state_dir)
    assert RunnerLink(state_dir).state().runner_pid not in waiting()


def test_one_that_was_killed_while_it_waited_is_passed_over(spares: SpareRunners, state_dir: Path) -> None:
    before = waiting()
    spares.refill()
    (pid,) = waiting() - before
    os.kill(pid, signal.SIGKILL)
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    spares.start(state_dir)
    assert RunnerLink(state_dir).state().runner_pid != pid


def test_closing_ends_those_that_wait_and_no_others(spares: SpareRunners, state_dir: Path) -> None:
    spares.refill()
    spares.start(state_dir)
    working = RunnerLink(state_dir).state().runner_pid
    before = waiting()
    spares.refill()
    (idle,) = waiting() - before
    spares.close()
    assert not Path(f"/proc/{idle}").exists()
    assert RunnerLink(state_dir).state().runner_pid == working


def test_those_that_wait_end_with_who_started_them(tmp_path: Path) -> None:
    """Even when it is killed at once."""
    script = "from sandbox.runner_spare import SpareRunners; s = SpareRunners(1); s.refill(); print(s._spares[0].pid)"
    agent = subprocess.Popen(
        [sys.executable, "-c", f"{script}; import sys; sys.stdout.flush(); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert agent.stdout is not None
    pid = int(agent.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    agent.kill()
    agent.communicate()
    until(lambda: not Path(f"/proc/{pid}").exists())
