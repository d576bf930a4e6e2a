"""From the job's output to its log."""

import os
from collections.abc import Mapping

from sandbox.runner.complaint import complain
from sandbox.runner.loop import Loop, now_us
from sandbox.runner.redaction import Forms, Redactor

LOG_FIFO, LOG = "gate/log", "log"
CHUNK = 65536


class Pump:
    """From the job's output to the log: bytes as they are, up to a number and no faster than a rate."""

    def __init__(self, loop: Loop, most: int, per_second: int, is_shut: bool = False) -> None:
        """Shut, it writes down nothing of the output before it knows what to black out."""
        self._loop, self._most, self._rate = loop, most, max(per_second, 1)
        self._fifo = os.open(LOG_FIFO, os.O_RDWR | os.O_NONBLOCK)  # also a writer, so that it never reads an end
        self._log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._log).st_size
        self._is_at_line = True
        self._is_shut = is_shut
        self._redactor: Redactor | None = None
        self._burst = max(self._rate, CHUNK)
        self._tokens, self._filled_us = self._burst, now_us()
        loop.on_readable(self._fifo, self._pump)

    def black_out(self, secrets: Mapping[str, bytes]) -> None:
        """Take these values out of all that comes, from now on."""
        self._redactor, self._is_shut = Redactor(Forms(secrets)), False

    def drain(self) -> None:
        """Take what is left, when no one can write any more."""
        self._loop.forget(self._fifo)
        while data := self._read(CHUNK):
            self._write(data)
        if self._redactor is not None:
            self._keep(self._redactor.flush())

    def _pump(self) -> None:
        now = now_us()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_us) * self._rate // 1_000_000)
        self._filled_us = now
        data = self._read(min(CHUNK, max(self._tokens, 1)))
        self._tokens -= len(data)
        self._write(data)
        if self._tokens <= 0:  # the job writes faster than it may: it waits in its own write
            self._loop.forget(self._fifo)
            pause = max(10_000, min(CHUNK, self._burst) * 1_000_000 // self._rate // 4)
            self._loop.at("log", now + min(pause, 1_000_000), self._resume)

    def _resume(self) -> None:
        self._loop.on_readable(self._fifo, self._pump)

    def _read(self, most: int) -> bytes:
        try:
            return os.read(self._fifo, most)
        except BlockingIOError:
            return b""

    def _write(self, data: bytes) -> None:
        if data and self._is_shut and self._size <= self._most:
            self._cut("the secrets that it may hold are not known any more")
        self._keep(data if self._redactor is None else self._redactor.feed(data))

    def _keep(self, data: bytes) -> None:
        room = self._most - self._size
        if not data or room < 0:
            return
        kept = data[:room]
        try:
            while kept:
                written = os.write(self._log, kept)
                self._size += written
                self._is_at_line = kept[:written].endswith(b"\n")
                kept = kept[written:]
            if len(data) > room:
                self._cut(f"the log holds {self._most} bytes and no more")
        except OSError as error:  # a full disk must not end the job, nor its watchdog
            self._size = self._most + 1
            complain(f"log: {error}")

    def _cut(self, why: str) -> None:
        line = f"[corral: the rest is left out: {why}]\n".encode()
        os.write(self._log, line if self._is_at_line else b"\n" + line)
        self._size = self._most + 1
