"""Services of a test's own: a private Redis on a unix socket, and nodes that hear hints."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis_parts import NodeListener, RedisServer


@pytest.fixture
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.close()


@pytest.fixture
def listen(redis_server: RedisServer, tmp_path: Path) -> Iterator[Callable[..., NodeListener]]:
    """Start a node's listener, and wait until it listens."""
    listeners: list[NodeListener] = []

    def start(node_id: str, url: str | None = None) -> NodeListener:
        listener = NodeListener(url or redis_server.url, node_id, tmp_path / f"{node_id}.notes")
        listeners.append(listener)
        listener.wait_for("ready")
        return listener

    yield start
    for listener in listeners:
        listener.close()
