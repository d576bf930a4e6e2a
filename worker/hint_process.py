"""The node's Celery process, `python -m worker.hint_process`: takes hints off the node's queue and pokes the agent.

It holds nothing, decides nothing, and may die at any moment; the agent starts it again.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from celery import Celery

from domain.ids import NodeId
from hints.app import node_app, node_worker
from hints.names import LAUNCH, STOP
from worker import poke
from worker.hint_keeper import ENVIRONMENT_URL, HintSettings


def application(settings: HintSettings) -> Celery:
    """The node's Celery application with its two tasks; each returns at once."""
    app = node_app(settings.redis_url, settings.node_id)

    def launch(attempt_id: str, fence: int) -> None:
        poke.send(settings.poke_socket, "launch", attempt_id, fence)

    def stop(attempt_id: str, fence: int = 0) -> None:
        poke.send(settings.poke_socket, "stop", attempt_id, fence)

    app.task(launch, name=LAUNCH)
    app.task(stop, name=STOP)
    return app


def main() -> None:
    """Serve until the agent is gone, which shows in the end of standard input."""
    settings = HintSettings(os.environ.pop(ENVIRONMENT_URL), NodeId(sys.argv[1]), Path(sys.argv[2]))
    threading.Thread(target=_end_with_agent, name="end", daemon=True).start()
    node_worker(application(settings)).start()


def _end_with_agent() -> None:
    while os.read(0, 1024):  # without the interpreter's own lock on standard input, which it wants back at its end
        pass
    os.kill(os.getpid(), signal.SIGKILL)  # it holds nothing; what it took is delivered again


if __name__ == "__main__":
    main()
