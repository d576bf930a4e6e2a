"""One Redis URL, as redis-py and as kombu write it: they disagree about unix sockets."""

REDIS_PY_SOCKET = "unix://"
KOMBU_SOCKET = "redis+socket://"


def for_redis_py(url: str) -> str:
    """The URL for redis-py; `unix:///path`, `redis://…` and `rediss://…` are as they were."""
    return _with_scheme(url, KOMBU_SOCKET, REDIS_PY_SOCKET)


def for_kombu(url: str) -> str:
    """The URL for Celery; a socket's becomes `redis+socket:///path`."""
    return _with_scheme(url, REDIS_PY_SOCKET, KOMBU_SOCKET)


def _with_scheme(url: str, old: str, new: str) -> str:
    return new + url.removeprefix(old) if url.startswith(old) else url
