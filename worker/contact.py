"""When this node last reached the API, on its own boot-time clock, and how patiently it tries again."""

import threading

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 5.0


class Leaving(Exception):
    """The agent ends. Sandboxes and folders stay as they are, for the next one."""


class Contact:
    """Remembers the last acknowledged heartbeat. Thread-safe."""

    def __init__(self, silence_us: int) -> None:
        self._silence_us = silence_us
        self._acked_us: int | None = None
        self._changed = threading.Condition()

    def acknowledged(self, sent_us: int) -> None:
        """A heartbeat that was sent at this boot-time was answered."""
        with self._changed:
            self._acked_us = max(sent_us, self._acked_us or 0)
            self._changed.notify_all()

    @property
    def acked_us(self) -> int | None:
        """Boot-time at which the last acknowledged heartbeat was sent."""
        with self._changed:
            return self._acked_us

    def is_silent(self, now_us: int) -> bool:
        """Whether nothing new may be started: no heartbeat sent lately enough was acknowledged."""
        acked = self.acked_us
        return acked is None or now_us - acked > self._silence_us

    def wait(self, seconds: float) -> None:
        """Until the next acknowledgement, or the time is up."""
        with self._changed:
            self._changed.wait(seconds)


class BackOff:
    """Waits that grow, up to `LONGEST_WAIT_S`, and end at once when the agent leaves."""

    def __init__(self, leaving: threading.Event) -> None:
        self._leaving = leaving
        self._next_s = FIRST_WAIT_S

    def pause(self) -> None:
        """Wait once more.

        Raises:
            Leaving: the agent ends.
        """
        if self._leaving.wait(self._next_s):
            raise Leaving
        self._next_s = min(self._next_s * 2, LONGEST_WAIT_S)
