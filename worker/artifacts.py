"""Stores what a job left in /out, file by file, and lists what was not taken."""

from collections.abc import Callable

from sandbox.collect import CollectLimits, Collector
from sandbox.contract import Collected, Skipped
from worker.api_link import Refused


def store_all(root_fd: int, limits: CollectLimits, put: Callable[[Collected], object]) -> tuple[Skipped, ...]:
    """Give each regular file to `put`; what it refuses is skipped like what was never a file.

    Args:
        root_fd: of /out; stays the caller's.
        put: stores one file, or raises `Refused`. Storing a file twice under one name is storing it once.
    """
    collector = Collector(root_fd, limits)
    refused: list[Skipped] = []
    for found in collector.files():
        try:
            put(found)
        except Refused as refusal:
            refused.append(Skipped(found.name, f"the API did not take it: {refusal}"))
    return (*collector.skipped, *refused)
