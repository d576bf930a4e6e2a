"""Who asks the runner over its socket: one JSON object a line, both ways."""

import json
import os
import socket
from collections.abc import Callable
from typing import Any

from sandbox.runner.complaint import complain
from sandbox.runner.loop import Loop

SOCKET = "runner.sock"
CHUNK = 65536


class Client:
    """One connection to the socket: requests in, answers out, a line each."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self.data = connection, b""

    def answer(self, fds: tuple[int, ...] = (), **facts: Any) -> None:
        try:
            socket.send_fds(self.socket, [json.dumps(facts).encode() + b"\n"], fds)
        except OSError as error:
            complain(f"an asker has gone: {error}")


class Askers:
    """The connections, and who among them waits for what."""

    def __init__(self, loop: Loop, obey: Callable[[Client, dict[str, Any]], None]) -> None:
        self._loop, self._obey = loop, obey
        self._waiting: list[tuple[str, Client]] = []
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def listen(self) -> None:
        """Open the door; a socket that a runner before us left is replaced."""
        if os.path.lexists(SOCKET):
            os.unlink(SOCKET)
        self._door.bind(SOCKET)  # a relative name: the path may be longer than an address holds
        self._door.listen(64)
        self._loop.on_readable(self._door.fileno(), self._accept)

    def close(self) -> None:
        """Let no one in any more."""
        os.unlink(SOCKET)

    def add(self, what: str, client: Client) -> None:
        """This one waits until `what` is answered."""
        self._waiting.append((what, client))

    def is_waiting(self, what: str) -> bool:
        """Whether anyone waits for `what`."""
        return any(asked == what for asked, _ in self._waiting)

    def answer_all(self, what: str, **facts: Any) -> None:
        """Answer everyone who waits for `what`."""
        askers = [client for asked, client in self._waiting if asked == what]
        self._waiting = [(asked, client) for asked, client in self._waiting if asked != what]
        for client in askers:
            client.answer(**facts)

    def _accept(self) -> None:
        connection, _ = self._door.accept()
        connection.settimeout(1.0)
        client = Client(connection)
        self._loop.on_readable(connection.fileno(), lambda: self._receive(client))

    def _receive(self, client: Client) -> None:
        try:
            data = client.socket.recv(CHUNK)
        except OSError:
            data = b""
        client.data += data
        if not data or len(client.data) > CHUNK:
            self._forget(client)
            return
        *lines, client.data = client.data.split(b"\n")
        for line in lines:
            self._obey(client, json.loads(line))

    def _forget(self, client: Client) -> None:
        self._loop.forget(client.socket.fileno())
        client.socket.close()
        self._waiting = [(what, one) for what, one in self._waiting if one is not client]
