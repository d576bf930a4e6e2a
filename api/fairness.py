"""Few places, and many who want one: tenants take turns, so that nobody's many keep another's few waiting."""

import asyncio
from collections import OrderedDict, deque
from contextvars import ContextVar
from types import TracebackType
from typing import Self

turn_of: ContextVar[str] = ContextVar("turn_of", default="")
"""Whose request is being served, as far as taking turns goes: a tenant; empty as long as nobody knows."""


class FairGate:
    """Gives out places, first to whoever was served longest ago. An asynchronous context. For one event loop."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """Those who wait, by whose they are, in the order of their turns."""

    async def __aenter__(self) -> Self:
        if self._free:
            self._free -= 1
            return self
        whose = turn_of.get()
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(whose, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._pass_on()  # it was given one in the same moment
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        while self._queues:
            whose, queue = self._queues.popitem(last=False)
            place = queue.popleft()
            if queue:
                self._queues[whose] = queue  # at the end: the others come first
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
