"""Runners started ahead of need: an interpreter takes longer to come up than the engine takes to make a container."""

import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.runner_link import ROOT, is_given, spawn

RUN: Final = """\
import os, sys
sys.path.append(sys.argv[1])
from sandbox.runner.life import main
folder = os.fsdecode(os.read(0, 4096))
if folder:
    appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for fd, path, flags in ((0, os.devnull, os.O_RDONLY), (1, folder + "/runner.err", appending)):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, fd)
        os.close(opened)
    os.dup2(1, 2)
    main(folder)
"""
"""Waits to be told its state folder, then is a runner like any other; ends if whoever started it ends first."""
FOLDER_BYTES_MAX: Final = 4096
"""A pipe takes so much at once or not at all."""


@dataclass(frozen=True, slots=True)
class _Spare:
    pid: int
    pipe: int


class SpareRunners:
    """A few runners that wait for a folder. Safe to share among threads."""

    def __init__(self, most: int = 2) -> None:
        self._most = most
        self._spares: list[_Spare] = []
        self._lock = threading.Lock()

    def start(self, state_dir: Path) -> None:
        """A runner for this folder: one that waits, or else a new one. If one runs there already, it ends by itself."""
        folder = os.fsencode(state_dir)
        while len(folder) < FOLDER_BYTES_MAX and (spare := self._take()) is not None:
            is_given(spare.pid, state_dir)
            try:
                os.write(spare.pipe, folder)
            except BrokenPipeError:
                continue  # it was killed while it waited
            finally:
                os.close(spare.pipe)
            return
        spawn(state_dir)

    def refill(self) -> None:
        """Start what is missing; called when nothing is waiting for it."""
        with self._lock:
            while len(self._spares) < self._most:
                self._spares.append(_start())

    def close(self) -> None:
        """Let those that wait end; runners that have a folder go on."""
        with self._lock:
            spares, self._spares = self._spares, []
        for spare in spares:
            os.close(spare.pipe)
            os.waitpid(spare.pid, 0)

    def _take(self) -> _Spare | None:
        with self._lock:
            return self._spares.pop() if self._spares else None


def _start() -> _Spare:
    """One that waits; a session of its own, so that no signal to ours reaches it."""
    ours, theirs = os.pipe()[::-1]
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-B", "-c", RUN, str(ROOT)],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGTERM, signal.SIGINT),
        )
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return _Spare(pid, ours)
