"""What happened to one sandbox, on disk before it is acted upon."""

import errno
import json
import os
import time
from typing import Any

from sandbox.runner.loop import now_us

JOURNAL = "journal.jsonl"


def boot_id() -> str:
    """Names this run of the machine; boot-times of two of them are never compared."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


class Journal:
    """What happened, on disk before it is acted upon."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._fd = os.open(JOURNAL, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with open(JOURNAL, "rb") as file:
            lines = file.read().split(b"\n")
        for line in filter(None, lines):
            try:
                self.entries.append(json.loads(line))
            except ValueError:
                continue  # a crash cut it off, and what it told of had not been done
        self._is_torn = bool(lines[-1])

    def find(self, what: str) -> dict[str, Any] | None:
        return next((entry for entry in self.entries if entry["what"] == what), None)

    def append(self, what: str, **facts: Any) -> dict[str, Any]:
        entry = {"what": what, "boot_id": boot_id(), "at_us": now_us(), "wall_us": time.time_ns() // 1000, **facts}
        line = (b"\n" if self._is_torn else b"") + json.dumps(entry).encode() + b"\n"
        self._is_torn = True  # unless all of it can be written
        if os.write(self._fd, line) < len(line):
            raise OSError(errno.ENOSPC, "the journal's disk is full")
        self._is_torn = False
        os.fsync(self._fd)
        self.entries.append(entry)
        return entry
