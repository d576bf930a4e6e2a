"""Cheap HTTP clients in one process: prepared bytes out, a status and a length back, over connections that stay open.

A full client would take the CPU from the server that is measured.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import uvloop


@dataclass(slots=True)
class Load:
    """What some clients saw in a stretch of time."""

    seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        """Answers a second, of all clients together."""
        return len(self.latencies_ms) / self.seconds


class UnexpectedAnswer(Exception):
    """The server did not create what it was asked to."""


def run(port: int, clients: int, seconds: float, request: Callable[[int], bytes]) -> Load:
    """Let so many clients send one request after the other for so long; each must be answered 201.

    Args:
        request: a client's next request, by the client's number.
    """
    return uvloop.run(_run(port, clients, seconds, request))


def message(path: str, body: bytes, headers: dict[str, str]) -> bytes:
    """A POST, as it goes over the wire."""
    lines = [f"POST {path} HTTP/1.1", "Host: bench", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def _run(port: int, clients: int, seconds: float, request: Callable[[int], bytes]) -> Load:
    load = Load()
    began = time.perf_counter()
    until = began + seconds
    await asyncio.gather(*(_client(port, number, until, request, load) for number in range(clients)))
    load.seconds = time.perf_counter() - began
    return load


async def _client(port: int, number: int, until: float, request: Callable[[int], bytes], load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while (sent := time.perf_counter()) < until:
            writer.write(request(number))
            await _created(reader)
            load.latencies_ms.append((time.perf_counter() - sent) * 1000)
    finally:
        writer.close()


async def _created(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"http/1.1 201 "):
        raise UnexpectedAnswer(f"{head.splitlines()[0].decode()}: {body[:500].decode(errors='replace')}")
