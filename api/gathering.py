"""Group commit: what is asked for while one group is being carried out makes up the next. Nothing waits for company.

Groups are formed in turns, one order from each tenant at a time, so that one tenant's flood delays nobody else's. Where
the database takes several groups at once, no tenant has orders in two of them: they would only wait for each other.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from domain.errors import TooBusy

Order = TypeVar("Order")
Answer = TypeVar("Answer")

TURNS_MAX = 16
"""Orders of one tenant in a group: whoever comes meanwhile waits for all of it."""
TURNS_FOR_EACH = 4
"""That each order of the tenant with the fewest waiting allows the others."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may wait, and how much goes into one group. A weight is a number of jobs."""

    group_weight: int
    """A heavier order makes a group of its own."""
    tenant_weight: int
    total_weight: int
    total_bytes: int
    groups: int = 1
    """Carried out at once."""


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Order, Answer]):
    tenant_id: str
    order: Order
    weight: int
    size_bytes: int
    alone: Hashable | None
    """Two orders with the same one are never in one group."""
    answer: asyncio.Future[Answer]


class Gathering(Generic[Order, Answer]):
    """Orders of one process on their way to the database. For one event loop."""

    def __init__(
        self, carry_out: Callable[[Sequence[Order]], Awaitable[Sequence[Answer | Exception]]], bounds: Bounds
    ) -> None:
        """`carry_out` gives an answer or an error for each order of a group."""
        self._carry_out = carry_out
        self._bounds = bounds
        self._queues: dict[str, deque[_Waiting[Order, Answer]]] = {}
        """By tenant, in the order of their turns."""
        self._weights: dict[str, int] = {}
        self._weight = 0
        self._bytes = 0
        self._busy: set[str] = set()
        """Tenants with orders in a group that is being carried out."""
        self._workers: set[asyncio.Task[None]] = set()

    async def put(
        self, tenant_id: str, order: Order, *, weight: int = 1, size_bytes: int = 0, alone: Hashable | None = None
    ) -> Answer:
        """The answer to the order. Whoever stops waiting for it does not take it back.

        Raises:
            TooBusy: too much waits, of this tenant or of all.
        """
        self._admit(tenant_id, weight, size_bytes)
        loop = asyncio.get_running_loop()
        waiting: _Waiting[Order, Answer] = _Waiting(tenant_id, order, weight, size_bytes, alone, loop.create_future())
        self._queues.setdefault(tenant_id, deque()).append(waiting)
        self._weights[tenant_id] = self._weights.get(tenant_id, 0) + weight
        self._weight += weight
        self._bytes += size_bytes
        if len(self._workers) < self._bounds.groups and tenant_id not in self._busy:
            self._workers.add(loop.create_task(self._work()))
        return await waiting.answer

    async def finish(self) -> None:
        """Return once nothing waits any more."""
        while self._workers:
            await asyncio.wait(self._workers)

    def _admit(self, tenant_id: str, weight: int, size_bytes: int) -> None:
        own = self._weights.get(tenant_id, 0)
        if own and own + weight > self._bounds.tenant_weight:
            raise TooBusy("too many jobs of this tenant wait to be taken in")
        if self._weight and self._weight + weight > self._bounds.total_weight:
            raise TooBusy("too many jobs wait to be taken in")
        if self._bytes and self._bytes + size_bytes > self._bounds.total_bytes:
            raise TooBusy("too much waits to be taken in")

    async def _work(self) -> None:
        task = asyncio.current_task()
        try:
            await self._drain()
        finally:
            self._workers -= {task}  # at once: an order that comes now needs another one

    async def _drain(self) -> None:
        while group := self._next_group():
            tenants = {each.tenant_id for each in group}
            self._busy |= tenants
            answers: Sequence[Answer | Exception]
            try:
                answers = await self._carry_out([each.order for each in group])
            except Exception as error:  # noqa: BLE001 - the edge of a task: each of those who wait is told
                answers = [error] * len(group)
            self._busy -= tenants
            for waiting, answer in zip(group, answers, strict=True):
                if waiting.answer.done():
                    continue  # nobody waits any more
                if isinstance(answer, Exception):
                    waiting.answer.set_exception(answer)
                else:
                    waiting.answer.set_result(answer)

    def _next_group(self) -> list[_Waiting[Order, Answer]]:
        """One order of each tenant in turn, until the group is full or nothing more may go into it.

        How many turns there are, whoever has the fewest waiting says: they wait for the others of their group.
        """
        group: list[_Waiting[Order, Answer]] = []
        together: set[Hashable] = set()
        left = self._bounds.group_weight
        turns = deque(each for each in self._queues if each not in self._busy)
        fewest = min((len(self._queues[each]) for each in turns), default=0)
        most = min(TURNS_MAX, TURNS_FOR_EACH * fewest)
        taken: Counter[str] = Counter()
        while turns:
            tenant_id = turns.popleft()
            if taken[tenant_id] == most:
                continue
            first = self._queues[tenant_id][0]
            if group and first.weight > left:
                break  # it is the first of the next group
            if first.alone is not None and first.alone in together:
                continue  # the tenant's turn comes again with the next group
            self._take(tenant_id)
            taken[tenant_id] += 1
            group.append(first)
            left -= first.weight
            if first.alone is not None:
                together.add(first.alone)
            if tenant_id in self._queues:
                turns.append(tenant_id)
        return group

    def _take(self, tenant_id: str) -> None:
        """Take the tenant's first order away; its next turn comes after everybody else's."""
        queue = self._queues.pop(tenant_id)
        taken = queue.popleft()
        self._weight -= taken.weight
        self._bytes -= taken.size_bytes
        self._weights[tenant_id] -= taken.weight
        if queue:
            self._queues[tenant_id] = queue
        else:
            del self._weights[tenant_id]
