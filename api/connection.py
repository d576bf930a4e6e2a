"""A connection as uvicorn serves it, but bounded before there is a request: in the size of a head and in its time.

uvicorn's fast parser bounds neither: whoever has no key could hold memory and descriptors for ever.
"""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.problems import problem

HEAD_BYTES_MAX = 64 * 1024
"""Most of a request's line and headers; also of what stands beside the bytes of a body, such as trailers."""
HEAD_SECONDS = 10.0
"""Longest time from a connection's beginning, or the first byte of its next request, to the end of the headers."""


class HeadTooLarge(Exception):
    """Ends the parsing; the parser passes it on as one of its own errors."""


class BoundedConnection(HttpToolsProtocol):
    """One connection. What is no HTTP is answered with a problem, as every other refusal is."""

    head_seconds: ClassVar[float] = HEAD_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_head_due = True
        self._beside_bytes = 0
        """Received of this request beside its body, less the size of the body itself."""
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the first head its time."""
        super().connection_made(transport)
        self._begin_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse on, unless there is more of it than any request needs."""
        if self._is_head_due:
            self._begin_waiting()
        self._beside_bytes += len(data)
        super().data_received(data)
        if self._beside_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("the headers are too large")

    def on_headers_complete(self) -> None:
        """Let the request begin.

        Raises:
            HeadTooLarge: all of it arrived at once, and is too much.
        """
        self._is_head_due = False
        self._stop_waiting()
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_BYTES_MAX:
            raise HeadTooLarge
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A body has bounds of its own; its chunks may be framed by as much as they hold."""
        self._beside_bytes -= 2 * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin again, with the next request."""
        self._is_head_due, self._beside_bytes = True, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, and close."""
        refusal = problem(400, "bad_request", msg, headers={"Connection": "close"})
        lines = [b"HTTP/1.1 400 Bad Request", *(b"%s: %s" % header for header in refusal.raw_headers)]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(refusal.body)]))
        self.transport.close()

    def _begin_waiting(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
