"""A worker that kills itself where `KILL_AT` says: `before STAGE` or `after STAGE` is journaled, or `acknowledged`."""

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from worker import service
from worker.settings import WorkerSettings
from worker.state_folder import Stage, StateFolder

KILL_AT = os.environ["KILL_AT"]


def kill_here(point: str) -> None:
    """Die at once, with nothing put in order, if this is the point."""
    if point == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)


def with_kill_points() -> None:
    """Every step of an attempt is journaled by `note`, and its last is `delete`."""
    note, delete = StateFolder.note, StateFolder.delete

    def noting(self: StateFolder, stage: Stage, **facts: Any) -> None:
        kill_here(f"before {stage.value}")
        note(self, stage, **facts)
        kill_here(f"after {stage.value}")

    def deleting(self: StateFolder) -> None:
        kill_here("acknowledged")
        delete(self)

    StateFolder.note = noting  # type: ignore[method-assign]
    StateFolder.delete = deleting  # type: ignore[method-assign]


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="worker: %(name)s: %(message)s")
    with_kill_points()
    service.run(WorkerSettings())
