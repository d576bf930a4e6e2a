"""Signals by descriptor: never to a process that took over an ended one's number."""

import signal

from sandbox.runner.complaint import complain


def send(fd: int, number: int) -> None:
    """Signal the process behind a pidfd; one that has ended, or -1, is left alone."""
    if fd < 0:
        return
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError as error:
        complain(f"signal {number}: {error}")
