"""How strong a wall stands around a job."""

from enum import StrEnum
from functools import lru_cache


class Level(StrEnum):
    """Isolation levels, weakest first."""

    PROCESS = "process"
    CONTAINER = "container"
    GVISOR = "gvisor"
    KATA = "kata"

    @property
    def strength(self) -> int:
        """Its rank; a job may run at its level or above, never below."""
        return tuple(Level).index(self)


class ImageKind(StrEnum):
    """What an image's reference names, which decides the levels that can run it."""

    HOST = "host"
    """The node's own files, read-only: the `process` level, and no other."""
    ENGINE = "engine"
    """An image of the container engine, pinned by digest or id: every level but `process`."""


def runs_at(kind: ImageKind, level: Level) -> bool:
    """Whether an image of this kind can be run at this level."""
    return (level is Level.PROCESS) == (kind is ImageKind.HOST)


@lru_cache(maxsize=4096)
def chosen_level(offered: frozenset[Level], least: Level, kind: ImageKind, allowed: frozenset[Level]) -> Level | None:
    """The weakest offered level that is strong enough, that the image runs at and that the tenant may use."""
    fitting = [lv for lv in offered & allowed if lv.strength >= least.strength and runs_at(kind, lv)]
    return min(fitting, key=lambda lv: lv.strength, default=None)
