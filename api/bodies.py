"""Takes in JSON bodies before any route sees them: bounded in size, time and shape. Uploads pass by, to be streamed.

In two layers, since a request waits for its turn between them: bytes cost little until somebody looks at them.
"""

import re
from collections.abc import MutableMapping
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import json_text
from api.problems import answer
from domain.errors import CorralError, TooLarge

UPLOADS = re.compile(r"/v1/(inputs|node/attempts/[^/]+/(logs|artifacts))/?")
"""Paths whose POST bodies are bytes, bounded by the route that reads them."""
BATCHES = "/v1/jobs/batch"
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
THREAD_FROM_BYTES = 64 * 1024
"""A larger body is looked at in a thread, so that the event loop goes on."""


def is_upload(scope: Scope) -> bool:
    """Whether the request's body is bytes, which its route takes as they come."""
    return scope["method"] == "POST" and UPLOADS.fullmatch(scope["path"]) is not None


class JsonGuard:
    """An ASGI layer inside a `BodyGuard`: what is in the body is sound JSON."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer with a problem."""
        if scope["type"] != "http" or scope["method"] not in METHODS_WITH_BODY or is_upload(scope):
            await self._app(scope, receive, send)
            return
        body = (await receive())["body"]
        try:
            if body:
                _check_content_type(Headers(scope=scope))
                if len(body) < THREAD_FROM_BYTES:
                    json_text.check(body)
                else:
                    await anyio.to_thread.run_sync(json_text.check, body)
        except (CorralError, HTTPException) as refusal:
            await answer(refusal)(scope, receive, send)
            return
        await self._app(scope, _Replay(body, receive), send)


class BodyGuard:
    """An ASGI layer: a request whose body is too large or too slow goes no further."""

    def __init__(self, app: ASGIApp, bytes_max: int, batch_bytes_max: int, seconds: float) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._batch_bytes_max = batch_bytes_max
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with its body in one piece, or answer with a problem."""
        if scope["type"] != "http" or scope["method"] not in METHODS_WITH_BODY:
            await self._app(scope, receive, send)
            return
        try:
            receive = await self._checked(scope, receive)
        except (CorralError, HTTPException) as refusal:
            await answer(refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        headers = Headers(scope=scope)
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise HTTPException(415, "compressed bodies are not taken")
        if headers.get("transfer-encoding", "chunked").strip().lower() != "chunked":
            raise HTTPException(415, "a body comes in chunks, or in one piece")
        if is_upload(scope):
            return receive
        bytes_max = self._batch_bytes_max if scope["path"] == BATCHES else self._bytes_max
        return _Replay(await self._body(headers, receive, bytes_max), receive)

    async def _body(self, headers: Headers, receive: Receive, bytes_max: int) -> bytes:
        """The whole body; chunked ones are counted as they come."""
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > bytes_max:
            raise _too_large(bytes_max)
        parts: list[bytes] = []
        size = 0
        try:
            with anyio.fail_after(self._seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise HTTPException(400, "the body ended early")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > bytes_max:
                        raise _too_large(bytes_max)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise HTTPException(408, "the body took too long to arrive", {"Connection": "close"}) from None


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"a body is at most {bytes_max} bytes")


class _Replay:
    """The body once more, in one piece, and then whatever follows it (a disconnect)."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._message: MutableMapping[str, Any] | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._message = self._message, None
        return message if message is not None else await self._receive()


def _check_content_type(headers: Headers) -> None:
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    if kind.strip() != "application/json" or parameters.strip() not in ("", "charset=utf-8", 'charset="utf-8"'):
        raise HTTPException(415, "the body must be application/json in UTF-8")
