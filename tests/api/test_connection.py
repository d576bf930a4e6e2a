"""What arrives before there is a request, over real connections: bounded in size and time, and refused as a problem."""

import json
import os
import socket
from collections.abc import Iterator

import pytest
from actors import Actor, a_tenant
from fastapi import FastAPI
from serving import served

from api.connection import HEAD_BYTES_MAX, BoundedConnection

pytestmark = pytest.mark.one_engine

BODY = json.dumps({"image": "busybox", "command": ["true"], "time_limit": "1m"}).encode()
LENGTH = f"Content-Length: {len(BODY)}"
JSON = "Content-Type: application/json"


class ShortConnection(BoundedConnection):
    """As it is served, with less patience."""

    head_seconds = 0.3


@pytest.fixture
def port(app: FastAPI, admin: Actor) -> Iterator[int]:
    """Where the application is served."""
    with served(app, ShortConnection) as port:
        yield port


@pytest.fixture
def sender(admin: Actor, image: str) -> Actor:
    """A tenant."""
    return a_tenant(admin, "acme")


def exchanged(port: int, *pieces: bytes) -> bytes:
    """What is answered until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            answer = b""
            while data := connection.recv(65536):
                answer += data
        except ConnectionError:
            return b""
        return answer


def post(sender: Actor, *lines: str) -> bytes:
    head = ["POST /v1/jobs HTTP/1.1", "Host: a", "Connection: close", f"Authorization: Bearer {sender.key}", *lines]
    return "\r\n".join([*head, "", ""]).encode("latin-1")


def assert_problem(answer: bytes, *statuses: int) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    problem = json.loads(body)
    assert problem["status"] in statuses
    assert head.startswith(b"HTTP/1.1 %d " % problem["status"])
    assert b"application/problem+json" in head


def queued(sender: Actor) -> int:
    count: int = sender.get("/quota").json()["queued"]
    return count


NO_HTTP = {
    "noise": bytes(range(256)) * 4,
    "TLS": bytes.fromhex("16030100c8010000c40303"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two lengths": b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "chunks and a length": b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
    "a long head at once": b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
    "a long address": b"GET /healthz?" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("name", NO_HTTP)
def test_what_is_no_request_is_a_problem(port: int, name: str) -> None:
    assert_problem(exchanged(port, NO_HTTP[name]), 400)


def test_an_endless_head_is_cut_off(port: int) -> None:
    pieces = [b"GET /healthz HTTP/1.1\r\na: "] + [b"b" * HEAD_BYTES_MAX] * 100
    exchanged(port, *pieces)
    assert b"200 OK" in exchanged(port, b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("begun", [b"", b"GET /hea", b"\r\n", b"GET /healthz HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_that_does_not_come_ends_the_connection(port: int, begun: bytes) -> None:
    assert exchanged(port, begun) == b""


def test_so_does_one_after_a_request(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"\r\n")
        assert connection.recv(65536) == b""


def test_a_body_may_be_slow_and_long(port: int, sender: Actor) -> None:
    """The bounds of a head are not those of a body."""
    long = json.dumps({"image": "busybox", "command": ["true", "x" * 100_000], "time_limit": "1m"}).encode()
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(part), part) for part in (long[n : n + 50] for n in range(0, len(long), 50))
    )
    answer = exchanged(port, post(sender, JSON, "Transfer-Encoding: chunked"), chunks, b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 201")
    assert queued(sender) == 1


TWICE = {
    "types": (JSON, "Content-Type: text/plain", LENGTH),
    "codings": (JSON, "Content-Encoding: identity", "Content-Encoding: gzip", LENGTH),
    "keys": (JSON, "Authorization: Bearer corral_0", LENGTH),
    "idempotency keys": (JSON, "Idempotency-Key: a", "Idempotency-Key: b", LENGTH),
    "hosts": (JSON, "Host: b", LENGTH),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_header_that_decides_stands_there_once(port: int, sender: Actor, name: str) -> None:
    assert_problem(exchanged(port, post(sender, *TWICE[name]) + BODY), 400)
    assert queued(sender) == 0


def test_a_transfer_that_is_compressed_is_refused(port: int, sender: Actor) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert_problem(exchanged(port, post(sender, JSON, "Transfer-Encoding: gzip, chunked") + chunks), 400, 415)
    assert queued(sender) == 0


def test_trailers_without_end_are_cut_off(port: int, sender: Actor) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
    pieces = [os.urandom(8).hex().encode() + b": " + b"b" * 10_000 + b"\r\n"] * 100
    assert b"201" not in exchanged(port, post(sender, JSON, "Transfer-Encoding: chunked") + chunks, *pieces)
    assert queued(sender) == 0
