"""A node that does nothing but note the hints it hears: `node_listener.py URL NODE_ID FILE`."""

import json
import sys
import time
from pathlib import Path

from celery.signals import worker_ready

sys.path.insert(0, str(Path(__file__).parents[2]))

from domain.ids import NodeId
from hints.app import node_app, node_worker
from hints.names import LAUNCH, STOP

SLOW = "att_slow"
"""This one takes a second, in which a test can do something to Redis."""


def main(url: str, node_id: str, path: str) -> None:
    def note(*words: object) -> None:
        with Path(path).open("a") as notes:
            notes.write(json.dumps(words) + "\n")

    app = node_app(url, NodeId(node_id))

    @app.task(name=LAUNCH)
    def launch(attempt_id: str, fence: int) -> None:
        note("launch", attempt_id, fence)
        if attempt_id == SLOW:
            time.sleep(1)

    @app.task(name=STOP)
    def stop(attempt_id: str, fence: int) -> None:
        note("stop", attempt_id, fence)

    def tell_ready(**_: object) -> None:
        note("ready")

    worker_ready.connect(tell_ready)
    node_worker(app).start()


main(*sys.argv[1:])
