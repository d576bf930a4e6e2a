"""One Redis URL, as redis-py and as kombu write it: they disagree about unix sockets."""

import socket
from typing import Any

REDIS_PY_SOCKET = "unix://"
KOMBU_SOCKET = "redis+socket://"


def for_redis_py(url: str) -> str:
    """The URL for redis-py; `unix:///path`, `redis://…` and `rediss://…` are as they were."""
    return _with_scheme(url, KOMBU_SOCKET, REDIS_PY_SOCKET)


def for_kombu(url: str) -> str:
    """The URL for Celery; a socket's becomes `redis+socket:///path`."""
    return _with_scheme(url, REDIS_PY_SOCKET, KOMBU_SOCKET)


def keep_alive(url: str) -> dict[str, Any]:
    """Options for a connection of redis-py that only listens, so that the death of a silent peer is noticed."""
    if for_redis_py(url).startswith(REDIS_PY_SOCKET):
        return {}  # the kernel tells at once
    options = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
    return {"socket_keepalive": True, "socket_keepalive_options": options}


def _with_scheme(url: str, old: str, new: str) -> str:
    return new + url.removeprefix(old) if url.startswith(old) else url
