"""The outermost layer: no error leaves as anything but a problem, every answer is guarded, every request is counted."""

import time
from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.addresses import Network, client_address
from api.metrics import Metrics
from api.problems import answer
from store.ids import new_id

GUARDS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Strict-Transport-Security": "max-age=31536000",
}
NO_CONTENT = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""An answer of the API is data: should a browser show it as a page, that page may do nothing."""
DOCS_CONTENT = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox allow-same-origin"
"""A page for people: it may look like something, and load and run nothing."""
DOCS = "/docs"
ONE_ONLY = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"host",
        b"idempotency-key",
        b"last-event-id",
        b"transfer-encoding",
    }
)
"""Headers that decide something: sent twice, one reader would take the first and another the last."""


class Edge:
    """An ASGI layer around all others."""

    def __init__(self, app: ASGIApp, metrics: Metrics, trusted: Sequence[Network] = ()) -> None:
        self._app = app
        self._metrics = metrics
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status = 0
        request_id = new_id("req")
        scope.setdefault("state", {}).update(request_id=request_id, address=client_address(scope, self._trusted))

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                if lines := scope["state"].get("rate_lines"):
                    headers["RateLimit-Policy"] = ", ".join(policy for policy, _ in lines)
                    headers["RateLimit"] = ", ".join(left for _, left in lines)
                _guard(headers, scope["path"])
            await send(message)

        try:
            _check_headers(scope)
            await self._app(scope, receive, guarded)
        except ClientDisconnect:
            status = status or 499
        except Exception as error:  # noqa: BLE001 - the edge of the process: nothing of the insides may leave
            response = answer(error)
            if not status:
                await response(scope, receive, guarded)
        finally:
            self._metrics.count(scope, status, time.monotonic() - began)


def _check_headers(scope: Scope) -> None:
    names = [name for name, _ in scope["headers"] if name in ONE_ONLY]
    if len(set(names)) != len(names):
        raise HTTPException(400, "a header stands there twice")


def _guard(headers: MutableHeaders, path: str) -> None:
    for name, value in GUARDS.items():
        headers[name] = value
    headers["Content-Security-Policy"] = DOCS_CONTENT if path == DOCS else NO_CONTENT
    headers.setdefault("Cache-Control", "no-store")
