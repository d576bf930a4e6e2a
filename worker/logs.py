"""Carries a running job's log to the API, segment by segment, and never holds more than one of them."""

import os
from collections.abc import Callable
from pathlib import Path

from worker.api_link import LogGap, Refused

SEGMENT_BYTES = 256 * 1024
FRESH_S = 10.0
"""How long a job counts as fresh, and somebody probably watches it."""
QUICK_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0


class LogPump:
    """Follows one log file. The server's size is what counts: after a restart of anything it tells where to go on."""

    def __init__(self, path: Path, send: Callable[[int, bytes], int]) -> None:
        """`send(offset, data)` stores a segment and returns the size that the server then holds."""
        self._path = path
        self._send = send
        self._offset = 0
        self._is_refused = False

    def step(self) -> bool:
        """Send the next segment. Whether there is probably more at once.

        Raises:
            ApiFault: but for a refusal, after which the rest of the log stays here.
        """
        data = b"" if self._is_refused else self._read()
        if not data:
            return False
        try:
            self._offset = self._send(self._offset, data)
        except LogGap as gap:
            # a server that holds more than there is here has it from an earlier life of this file: nothing to add
            self._is_refused = gap.size_bytes > self._offset + len(data)
            self._offset = gap.size_bytes
        except Refused:
            self._is_refused = True
        return len(data) == SEGMENT_BYTES

    def is_behind(self) -> bool:
        """Whether something is still to be sent."""
        return not self._is_refused and bool(self._read())

    def _read(self) -> bytes:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(fd, SEGMENT_BYTES, self._offset)
        finally:
            os.close(fd)


class Pace:
    """How long to wait before the log is looked at again: briefly while a job is fresh or talks, longer when silent."""

    def __init__(self) -> None:
        self._pause_s = QUICK_PAUSE_S

    def after(self, age_s: float, is_moving: bool) -> float:
        """Seconds to wait, after a look that found something or did not."""
        if is_moving or age_s < FRESH_S:
            self._pause_s = QUICK_PAUSE_S if age_s < FRESH_S else QUICK_PAUSE_S * 2
        else:
            self._pause_s = min(self._pause_s * 1.5, LONGEST_PAUSE_S)
        return self._pause_s
