"""One request to the container engine, without blocking."""

import json
import socket
from collections.abc import Callable
from typing import Any

from sandbox.runner.loop import Loop, now_us

CHUNK = 65536
ANSWER_WITHIN_US = 5_000_000


class Call:
    """One HTTP/1.0 request to the engine over its unix socket; HTTP/1.0, so that the answer is not cut in chunks."""

    def __init__(
        self, loop: Loop, path: str, request: str, done: Callable[[int, Any], None], within_us: int | None
    ) -> None:
        self._loop, self._done, self._data, self._name = loop, done, bytearray(), f"call {id(self)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER_WITHIN_US / 1e6)
        try:
            self._socket.connect(path)
            self._socket.sendall(f"{request} HTTP/1.0\r\nHost: engine\r\nContent-Length: 0\r\n\r\n".encode())
        except OSError:
            loop.at(self._name, 0, self._end)
            return
        self._socket.setblocking(False)
        loop.at(self._name, within_us and now_us() + within_us, self._end)
        loop.on_readable(self._socket.fileno(), self._receive)

    def _receive(self) -> None:
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._data += data
        if not data:
            self._end()

    def _end(self) -> None:
        """Tell the status and the body; status 0 if there was no answer, or half of one."""
        self.drop()
        head, _, body = bytes(self._data).partition(b"\r\n\r\n")
        try:
            status, value = int(head.split(b" ", 2)[1]), json.loads(body) if body.strip() else None
        except (IndexError, ValueError):
            status, value = 0, None
        self._done(status, value)

    def drop(self) -> None:
        self._loop.at(self._name, None, self._end)
        if self._socket.fileno() >= 0:
            self._loop.forget(self._socket.fileno())
        self._socket.close()
