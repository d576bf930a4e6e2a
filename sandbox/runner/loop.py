"""Waits for descriptors and for times on the machine's boot-time clock."""

import select
import time
from collections.abc import Callable


def now_us() -> int:
    """Microseconds since the machine started, time asleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


LONGEST_MS = 10_000
"""The kernel's waiting does not count the time asleep, the deadlines do: look again before long."""


class Loop:
    """Waits for descriptors and times, and calls back."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._timers: dict[str, tuple[int, Callable[[], None]]] = {}

    def on_readable(self, fd: int, call: Callable[[], None]) -> None:
        self._readers[fd] = call
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        if self._readers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def at(self, name: str, when_us: int | None, call: Callable[[], None]) -> None:
        """Call at a boot-time; a name has one time, and None cancels it."""
        self._timers.pop(name, None)
        if when_us is not None:
            self._timers[name] = (when_us, call)

    def turn(self) -> None:
        soonest = min((when for when, _ in self._timers.values()), default=None)
        wait_ms = None if soonest is None else max(0, -((now_us() - soonest) // 1000))
        for fd, _ in self._poll.poll(None if wait_ms is None else min(wait_ms, LONGEST_MS)):
            if fd in self._readers:
                self._readers[fd]()
        for name, (when, call) in sorted(self._timers.items(), key=lambda timer: timer[1][0]):
            if when <= now_us() and self._timers.get(name, (None, None))[1] is call:
                del self._timers[name]
                call()
