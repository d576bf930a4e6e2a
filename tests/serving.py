"""The application on a port of this machine, for what no client in the same process can try."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from redis_parts import eventually

from api.connection import BoundedConnection


@contextmanager
def served(app: FastAPI, http: type[BoundedConnection] = BoundedConnection) -> Iterator[int]:
    """The port. No lifespan of its own: somebody else has started the application."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(
            uvicorn.Config(app, http=http, ws="none", lifespan="off", log_config=None, access_log=False)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        eventually(lambda: server.started)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()
