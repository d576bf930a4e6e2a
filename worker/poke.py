"""How the node's Celery process tells the agent that something was hinted: one datagram over a local unix socket.

A poke is a hint of a hint: lost, doubled or forged, it changes nothing, because the agent asks the API.
"""

import contextlib
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from domain.ids import AttemptId, Fence

LARGEST_BYTES = 512
log = logging.getLogger(__name__)


class _Poke(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    what: Literal["launch", "stop"]
    attempt_id: Annotated[str, StringConstraints(pattern=r"^att_[0-9a-z]{26}$")]
    fence: Annotated[int, Field(ge=0, le=2**62)]


@dataclass(frozen=True, slots=True)
class Poke:
    """What was hinted."""

    what: Literal["launch", "stop"]
    attempt_id: AttemptId
    fence: Fence


def parse(data: bytes) -> Poke | None:
    """The poke that these bytes are, or None: what is malformed is nobody's fault worth more than a line."""
    if len(data) > LARGEST_BYTES:
        return None
    try:
        found = _Poke.model_validate_json(data)
    except ValidationError:
        return None
    return Poke(found.what, AttemptId(found.attempt_id), Fence(found.fence))


def send(path: Path, what: Literal["launch", "stop"], attempt_id: str, fence: int) -> bool:
    """Poke the agent; False if it does not listen, and then its next heartbeat finds what was hinted."""
    message = json.dumps({"what": what, "attempt_id": attempt_id, "fence": fence}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(1.0)
        try:
            with _address(path) as address:
                sender.sendto(message, address)
        except OSError:
            return False
    return True


class PokeListener:
    """Hears pokes on a thread of its own and passes each well-formed one on."""

    def __init__(self, path: Path, on_poke: Callable[[Poke], None]) -> None:
        self._path = path
        self._on_poke = on_poke
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._is_closed = False
        self._thread = threading.Thread(target=self._listen, name="pokes", daemon=True)

    def start(self) -> None:
        """Take the socket's place; one that a killed agent left is replaced."""
        self._path.unlink(missing_ok=True)
        with _address(self._path) as address:
            self._socket.bind(address)
        self._path.chmod(0o600)
        self._thread.start()

    def close(self) -> None:
        """Stop hearing."""
        self._is_closed = True
        self._path.unlink(missing_ok=True)
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=5)
        self._socket.close()

    def _listen(self) -> None:
        while not self._is_closed:
            data = self._socket.recv(LARGEST_BYTES + 1)
            if self._is_closed:
                return
            poke = parse(data)
            if poke is None:
                log.warning("a malformed poke of %d bytes was ignored", len(data))
                continue
            try:
                self._on_poke(poke)
            except Exception:
                log.exception("a poke came to nothing")  # edge of the thread: the next one must be heard


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """A way to the socket through a descriptor of its folder: its path may be longer than an address holds."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
