"""A sandbox's life, as the conformance suites lead it: made, run, watched, its runner killed."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sandbox.collect import CollectLimits, Collector
from sandbox.contract import (
    Exit,
    IsolationRecord,
    LaunchOrder,
    Sandbox,
    SandboxId,
)
from sandbox.runner_link import LOG, RunnerLink

MIB = 1 << 20
WITHIN_S = 60.0
OrderMaker = Callable[..., LaunchOrder]


@dataclass(frozen=True)
class Ended:
    """All that is left of a sandbox's life."""

    exit: Exit
    log: bytes
    files: dict[str, bytes]
    record: IsolationRecord


@contextmanager
def made(sandbox: Sandbox, order: LaunchOrder) -> Iterator[SandboxId]:
    """A sandbox whose gate waits; removed afterwards."""
    name = sandbox.create(order)
    try:
        yield name
    finally:
        sandbox.remove(name, order)


@contextmanager
def running(sandbox: Sandbox, order: LaunchOrder) -> Iterator[SandboxId]:
    """A sandbox whose gate is open; removed afterwards."""
    with made(sandbox, order) as name:
        sandbox.verify(name, order)
        sandbox.start(name, order)
        yield name


def ended(sandbox: Sandbox, name: SandboxId, order: LaunchOrder) -> Exit:
    """Its end, which must come."""
    found = sandbox.wait(name, order, WITHIN_S)
    assert found is not None, "it has not ended"
    return found


def ran(sandbox: Sandbox, order: LaunchOrder) -> Ended:
    """Its whole life."""
    with made(sandbox, order) as name:
        record = sandbox.verify(name, order)
        sandbox.start(name, order)
        end = ended(sandbox, name, order)
        fd = sandbox.output_fd(name, order)
        try:
            files = {file.name: os.read(file.fd, MIB) for file in Collector(fd, CollectLimits()).files()}
        finally:
            os.close(fd)
        return Ended(end, log_of(order), files, record)


def log_of(order: LaunchOrder) -> bytes:
    """What the runner wrote down of its output so far."""
    path = order.state_dir / LOG
    return path.read_bytes() if path.exists() else b""


def until(holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < deadline, "it has not come about"
        pause.wait(0.01)


def says(order: LaunchOrder, word: bytes) -> Callable[[], bool]:
    """Whether the job has written this word."""
    return lambda: word in log_of(order)


def kill_runner(order: LaunchOrder) -> int:
    """`kill -9` the runner and wait until it is gone; its number."""
    pid = RunnerLink(order.state_dir).state().runner_pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: not RunnerLink(order.state_dir).is_running())
    return pid


class Backend:
    """What a suite must know of the backend that it tries; a subclass says what differs."""

    dies_with_runner = False
    """Whether the sandbox is the runner's child."""
    limits_memory = True
    harmless: frozenset[bytes] = frozenset()
    """What `test_a_shell_finds_no_way_out` and its like may report here, with the reason in the subclass."""
    python: tuple[str, ...] | None = None
    """A Python inside, for what a shell cannot try; None if there is none."""
