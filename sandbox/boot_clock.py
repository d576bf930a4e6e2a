"""The node's own clock for deadlines and durations: it never steps, and a reboot is seen by the boot id."""

import time
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def now_us() -> int:
    """Microseconds since the machine started, time asleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def boot_id() -> str:
    """Names this run of the machine; boot-times of two of them are never compared."""
    return BOOT_ID.read_text().strip()
