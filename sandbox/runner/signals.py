"""Signals by descriptor: never to a process that took over an ended one's number."""

import signal
import sys


def send(fd: int, number: int) -> None:
    """Signal the process behind a pidfd; one that has ended, or -1, is left alone."""
    if fd < 0:
        return
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError as error:
        sys.stderr.write(f"signal {number}: {error}\n")
