"""Pokes: heard when well-formed, ignored when not, lost without harm."""

import queue
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker.poke import LARGEST_BYTES, Poke, PokeListener, parse, send

ATTEMPT = "att_" + "0" * 26
GARBAGE = [
    b"",
    b"\0",
    b"not json",
    b"[" * LARGEST_BYTES,
    b'{"what":"launch"}',
    b'{"what":"remove","attempt_id":"%s","fence":1}' % ATTEMPT.encode(),
    b'{"what":"launch","attempt_id":"../../etc","fence":1}',
    b'{"what":"launch","attempt_id":"%s","fence":"1"}' % ATTEMPT.encode(),
    b'{"what":"launch","attempt_id":"%s","fence":-1}' % ATTEMPT.encode(),
    b'{"what":"launch","attempt_id":"%s","fence":1,"more":2}' % ATTEMPT.encode(),
    b'{"what":"launch","attempt_id":"%s","fence":1e999}' % ATTEMPT.encode(),
    b'{"what":"launch","attempt_id":"%s","fence":1}' % ATTEMPT.encode() + b" " * LARGEST_BYTES,
]


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[tuple[Path, "queue.Queue[Poke]"]]:
    pokes: queue.Queue[Poke] = queue.Queue()
    listener = PokeListener(tmp_path / "poke.sock", pokes.put)
    listener.start()
    yield tmp_path / "poke.sock", pokes
    listener.close()


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_what_is_malformed_is_no_poke(data: bytes) -> None:
    assert parse(data) is None


def test_a_poke_is_heard(heard: tuple[Path, "queue.Queue[Poke]"]) -> None:
    path, pokes = heard
    assert send(path, "launch", ATTEMPT, 7)
    assert pokes.get(timeout=5) == Poke("launch", ATTEMPT, 7)  # type: ignore[arg-type]


def test_garbage_does_not_deafen_it(heard: tuple[Path, "queue.Queue[Poke]"]) -> None:
    path, pokes = heard
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for data in [*GARBAGE, b"x" * 100_000]:
            sender.sendto(data, str(path))
    assert send(path, "stop", ATTEMPT, 1)
    assert pokes.get(timeout=5).what == "stop"
    assert pokes.empty()


def test_a_poke_for_nobody_is_lost_without_harm(tmp_path: Path) -> None:
    assert not send(tmp_path / "nobody.sock", "launch", ATTEMPT, 1)


def test_a_socket_that_a_killed_agent_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "poke.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(path))
    pokes: queue.Queue[Poke] = queue.Queue()
    listener = PokeListener(path, pokes.put)
    listener.start()
    assert send(path, "launch", ATTEMPT, 1)
    assert pokes.get(timeout=5).fence == 1
    listener.close()
    assert not path.exists()


def test_a_folder_may_be_deeper_than_a_sockets_address_holds(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    pokes: queue.Queue[Poke] = queue.Queue()
    listener = PokeListener(deep / "poke.sock", pokes.put)
    listener.start()
    assert send(deep / "poke.sock", "launch", ATTEMPT, 1)
    assert pokes.get(timeout=5).fence == 1
    listener.close()
