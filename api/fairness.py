"""Few places, and many who want one: tenants take turns, so that nobody's many keep another's few waiting."""

import asyncio
from collections import Counter, OrderedDict, deque
from contextvars import ContextVar
from types import TracebackType
from typing import Self

from domain.errors import TooBusy

turn_of: ContextVar[str] = ContextVar("turn_of", default="")
"""Whose request is being served, as far as taking turns goes: a tenant; empty as long as nobody knows."""
WAITING_MAX = 256
"""Of one tenant's, for places of one kind."""


class Place:
    """One that was given out. Leaving it twice is leaving it once."""

    def __init__(self, gate: "FairGate", whose: str) -> None:
        self._gate = gate
        self._whose = whose
        self._is_left = False

    def leave(self) -> None:
        """Let the next one in."""
        if not self._is_left:
            self._is_left = True
            self._gate._leave(self._whose)


class FairGate:
    """Gives out places, first to whoever was served longest ago. For one event loop.

    A tenant holds no more of them than its share, and the share is smaller as long as others are inside or wait.
    """

    def __init__(self, places: int, alone: int | None = None, together: int | None = None) -> None:
        """`alone` is the most that a tenant holds at all, and `together` the most with others around."""
        self._free = places
        self._alone = alone or places
        self._together = together or self._alone
        self._inside: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """Those who wait, by whose they are, in the order of their turns."""

    async def enter(self, whose: str) -> Place:
        """A place, once there is one.

        Raises:
            TooBusy: too many of the same tenant's wait already.
        """
        queue = self._queues.setdefault(whose, deque())
        if len(queue) >= WAITING_MAX:
            raise TooBusy("too many requests of this tenant wait to be served")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(place)
        self._let_in()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave(whose)  # it was given one in the same moment
            else:
                self._forget(whose, place)
            raise
        return Place(self, whose)

    def _leave(self, whose: str) -> None:
        self._free += 1
        self._inside[whose] -= 1
        if not self._inside[whose]:
            del self._inside[whose]
        self._let_in()

    def _let_in(self) -> None:
        """Whoever may have a place now has it."""
        while self._free and (whose := self._next()) is not None:
            queue = self._queues.pop(whose)
            place = queue.popleft()
            if queue:
                self._queues[whose] = queue  # at the end: the others come first
            self._free -= 1
            self._inside[whose] += 1
            place.set_result(None)

    def _next(self) -> str | None:
        for whose in self._queues:
            is_alone = len(self._queues) == 1 and set(self._inside) <= {whose}
            if self._inside[whose] < (self._alone if is_alone else self._together):
                return whose
        return None

    def _forget(self, whose: str, place: asyncio.Future[None]) -> None:
        queue = self._queues[whose]
        queue.remove(place)
        if not queue:
            del self._queues[whose]
        self._let_in()  # the others may be alone now


class Turn:
    """A place at a gate for the one whose request is being served. An asynchronous context."""

    def __init__(self, gate: FairGate) -> None:
        self._gate = gate
        self._place: Place | None = None

    async def __aenter__(self) -> Self:
        self._place = await self._gate.enter(turn_of.get())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._place is not None
        self._place.leave()
