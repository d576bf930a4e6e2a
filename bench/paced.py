"""One tenant's requests at a steady pace, and another's as fast as they are answered, each from a process of its own.

`python -m bench.paced` is told on its first line of input what to send, as JSON, and prints what it saw.
"""

import asyncio
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import uvloop

GET, POST = "GET", "POST"


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests of one kind, one after the other, on so many connections."""

    path: str
    body: str
    """Empty for a GET."""
    keys: Sequence[str]
    connections: int
    pause_seconds: float
    """From the beginning of one request to that of the next; 0 sends the next as soon as one is answered."""


def start(port: int, seconds: float, streams: Sequence[Stream]) -> "subprocess.Popen[str]":
    """Begin to send them, from another process."""
    process = subprocess.Popen(
        (sys.executable, "-m", "bench.paced"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    print(json.dumps([port, seconds, [asdict(stream) for stream in streams]]), file=process.stdin, flush=True)
    return process


def seen(process: "subprocess.Popen[str]") -> list[dict[int, list[float]]]:
    """Of each stream: how long the answers took in ms, by status."""
    output, _ = process.communicate()
    found: list[dict[str, list[float]]] = json.loads(output)
    return [{int(status): taken for status, taken in stream.items()} for stream in found]


def _bytes(stream: Stream, connection: int) -> bytes:
    lines = [
        f"{POST if stream.body else GET} {stream.path} HTTP/1.1",
        "Host: bench",
        f"Authorization: Bearer {stream.keys[connection % len(stream.keys)]}",
    ]
    if stream.body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(stream.body)}"]
        lines += [f"Idempotency-Key: {uuid.uuid4().hex}"]
    return ("\r\n".join(lines) + "\r\n\r\n" + stream.body).encode()


async def _connection(port: int, stream: Stream, number: int, until: float, taken: dict[int, list[float]]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while (sent := time.perf_counter()) < until:
            writer.write(_bytes(stream, number))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            now = time.perf_counter()
            taken.setdefault(int(head.split(b" ", 2)[1]), []).append((now - sent) * 1000)
            await asyncio.sleep(max(0.0, sent + stream.pause_seconds - now))
    finally:
        writer.close()


async def _send(port: int, seconds: float, streams: Sequence[Stream]) -> list[dict[int, list[float]]]:
    until = time.perf_counter() + seconds
    taken: list[dict[int, list[float]]] = [{} for _ in streams]
    await asyncio.gather(
        *(
            _connection(port, stream, number, until, taken[place])
            for place, stream in enumerate(streams)
            for number in range(stream.connections)
        )
    )
    return taken


def main() -> None:
    """Send what the input tells."""
    port, seconds, streams = json.loads(sys.stdin.readline())
    print(json.dumps(uvloop.run(_send(port, seconds, [Stream(**stream) for stream in streams]))))


if __name__ == "__main__":
    main()
