"""The control plane's own clock, by which it measures other people's silence."""

import time


def boot_seconds() -> float:
    """Seconds since this machine started, sleep included. No step of a wall clock changes it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
