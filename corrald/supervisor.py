"""One parent over several processes: starts them in order, reports one that dies, stops all cleanly."""

import ctypes
import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
START_SECONDS = 120
"""What a process may take to answer: imports alone take half a minute on a small machine with much to do."""
STOP_SECONDS = 20
"""What a process may take to stop by itself before it is killed."""
LIBC = ctypes.CDLL(None, use_errno=True)

log = logging.getLogger("corrald")


@dataclass(frozen=True, slots=True)
class Child:
    """A process to be kept: how to start it, and how to see that it answers."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    is_ready: Callable[[], bool] = lambda: True


class ChildDied(Exception):
    """A process ended by itself."""

    def __init__(self, name: str, status: int) -> None:
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with {status}"
        super().__init__(f"{name} {how}")
        self.name = name


class Supervisor:
    """Holds the children. Those started last are stopped first."""

    def __init__(self, logs_dir: Path) -> None:
        self._logs_dir = logs_dir
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stop_asked = False

    def start(self, children: Sequence[Child]) -> None:
        """Start one after the other, each when the one before it answers.

        Raises:
            ChildDied: one ended before it was ready.
            TimeoutError: one did not get ready in time.
        """
        for child in children:
            if self._stop_asked:
                return
            self._running[child.name] = self._spawn(child)
            self._await_ready(child)

    def watch(self) -> None:
        """Wait until somebody asks to stop (SIGTERM, SIGINT).

        Raises:
            ChildDied: one of them ended by itself.
        """
        with selectors.DefaultSelector() as selector:
            for name, process in self._running.items():
                selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ, name)
            try:
                while not self._stop_asked:
                    for key, _ in selector.select(timeout=1):
                        self._report_death(str(key.data))
            finally:
                for key in list(selector.get_map().values()):
                    os.close(key.fd)

    def ask_stop(self, *_: object) -> None:
        """Make `watch` and `start` return; fit to be a signal's handler."""
        self._stop_asked = True

    def stop(self) -> None:
        """Stop all, the last first; what does not stop in time is killed, and said."""
        while self._running:
            name, process = self._running.popitem()
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                log.warning("%s did not stop within %d s and was killed", name, STOP_SECONDS)
                process.kill()
                process.wait()

    @property
    def pids(self) -> Mapping[str, int]:
        """The process id of each child."""
        return {name: process.pid for name, process in self._running.items()}

    def log_path(self, name: str) -> Path:
        """Where a child's output goes."""
        return self._logs_dir / f"{name}.log"

    def _spawn(self, child: Child) -> subprocess.Popen[bytes]:
        with self.log_path(child.name).open("ab") as output:
            return subprocess.Popen(
                child.argv,
                env={**os.environ, **child.env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,  # only one thread runs here
                start_new_session=True,  # a Ctrl-C reaches the parent alone, which stops them in order
            )

    def _await_ready(self, child: Child) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not child.is_ready():
            if self._running[child.name].poll() is not None:
                self._report_death(child.name)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{child.name} was not ready in {START_SECONDS} s; see {self.log_path(child.name)}")
            if self._stop_asked:
                return
            time.sleep(0.02)

    def _report_death(self, name: str) -> None:
        status = self._running.pop(name).wait()
        raise ChildDied(name, status)


def python_child(name: str, *arguments: str, env: Mapping[str, str], is_ready: Callable[[], bool]) -> Child:
    """`corrald ARGUMENTS` as a child, by the same interpreter."""
    return Child(name, (sys.executable, "-m", "corrald.main", *arguments), env, is_ready)


def _die_with_parent() -> None:
    """Have the kernel stop this child if the parent is killed, so that no half of the system is left running."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
