"""The way of new jobs into the database: many requests in one durable commit, each with its own answer.

Within the commit it is checked again that each key still counts as it did when its request came in, so that a key may
be remembered for a moment and is revoked at once all the same.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import anyio
from fastapi import Depends, Request
from sqlmodel import Session
from starlette.responses import Response

from api.callers import Caller
from api.fairness import turn_of
from api.gathering import Bounds, Gathering
from api.once import JSON
from api.shown_key import ShownKey
from api.transactions import Database
from domain.errors import CorralError
from domain.ids import Instant
from hints.sender import Hints
from store.audit import Change, append
from store.clock import now_us
from store.health import DATABASE_AWAY, has_lost_to_another
from store.idempotency import Answer, Asked, KeyTaken, earlier_answers, keep_all
from store.key_witness import Witness, witnesses
from store.orders import Order, Queued
from store.submissions import submit

WAKE_PAUSE_SECONDS = 0.02
"""After a call; the calls within it count as one."""
EVERYBODY = "submissions"
"""Whose turn it is when the orders of many tenants are carried out."""
TRIES = 3
"""Of an order with which another transaction interferes: one that takes its idempotency key, say."""
BOUNDS = Bounds(group_weight=256, tenant_weight=4_000, total_weight=20_000, total_bytes=256 * 2**20)
GROUPS = 4
"""That PostgreSQL takes at once, of different tenants. SQLite has one writer."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What one request asks for."""

    order: Order
    asked: Asked | None
    """None without an Idempotency-Key."""
    answer: Callable[[Sequence[Queued]], bytes]
    """What is told of the jobs."""
    change: Callable[[str], Change]
    """What the audit is told of it, given what it made."""
    size_bytes: int

    @property
    def unique(self) -> Hashable | None:
        """Requests with the same one are not carried out together: the later ones find the answer of the first."""
        return None if self.asked is None else (self.asked.caller, self.asked.key)


@dataclass(frozen=True, slots=True)
class Shown:
    """A request, and the key that it showed."""

    prefix: str
    witness: Witness | None
    """As it was when the request came in."""
    sent: Sent


@dataclass(frozen=True, slots=True)
class Told:
    """An answer, and whether it was given before."""

    answer: Answer
    is_replay: bool


class Waker:
    """Tells the dispatcher that there is something to do; nobody waits for that, and many calls may count as one."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._is_due = False
        self._task: asyncio.Task[None] | None = None

    def call(self) -> None:
        """Tell it soon. For one event loop."""
        self._is_due = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        while self._is_due:
            self._is_due = False
            await anyio.to_thread.run_sync(self._wake)
            await asyncio.sleep(WAKE_PAUSE_SECONDS)


class KeyChanged(Exception):
    """The key no longer counts as it did when the request came in: who it is must be found out anew."""


class Submitter:
    """Takes in the new jobs of one process."""

    def __init__(self, database: Database, hints: Hints) -> None:
        self._database = database
        groups = 1 if database.engine.dialect.name == "sqlite" else GROUPS
        self._waker = Waker(hints.wake)
        self._gathering: Gathering[Shown, Told] = Gathering(self._carry_out, replace(BOUNDS, groups=groups))

    async def submit(self, shown: ShownKey, made: Callable[[Caller], Sent]) -> Response:
        """The answer to what the caller asks for, once the jobs are stored for good.

        Raises:
            CorralError: why they are not.
        """
        try:
            told = await self._put(shown, made(shown.seen.caller))
        except KeyChanged:
            await shown.look_again()
            told = await self._put(shown, made(shown.seen.caller))
        headers = {"Idempotent-Replay": "true"} if told.is_replay else {}
        return Response(told.answer.body, told.answer.status, headers, JSON)

    async def _put(self, shown: ShownKey, sent: Sent) -> Told:
        weight = sent.order.count
        shown.leave_place()  # what waits to be committed with others keeps nobody busy
        return await self._gathering.put(
            sent.order.tenant_id,
            Shown(shown.prefix, shown.seen.witness, sent),
            weight=weight,
            size_bytes=sent.size_bytes,
            alone=sent.unique,
        )

    async def finish(self) -> None:
        """Return once all that was taken in is carried out."""
        await self._gathering.finish()

    async def _carry_out(self, group: Sequence[Shown]) -> Sequence[Told | Exception]:
        turn_of.set(EVERYBODY)  # not of the one whose order happened to come first
        told = await self._tried(group)
        if any(isinstance(each, Told) and not each.is_replay for each in told):
            self._waker.call()
        return told

    async def _tried(self, group: Sequence[Shown], tries: int = TRIES) -> Sequence[Told | Exception]:
        """What fails together is tried again by halves, so that in the end only what is to blame has failed."""
        try:
            return await self._database.write(partial(_commit, group=group))
        except Exception as error:  # noqa: BLE001 - told to its own request alone
            is_passing = isinstance(error, KeyTaken) or has_lost_to_another(error)
            if isinstance(error, DATABASE_AWAY) and not is_passing:
                return [error] * len(group)
            if len(group) > 1:
                middle = len(group) // 2
                return [*await self._tried(group[:middle]), *await self._tried(group[middle:])]
            return await self._tried(group, tries - 1) if is_passing and tries > 1 else [error]


def _commit(session: Session, group: Sequence[Shown]) -> list[Told | Exception]:
    """All of a group in one transaction. One that is refused leaves nothing in it."""
    now = now_us(session)
    current = witnesses(session, {shown.prefix for shown in group})
    earlier = earlier_answers(session, (shown.sent.asked for shown in group if shown.sent.asked is not None))
    outcomes: dict[int, Told | Exception] = {}
    for place, shown in enumerate(group):
        known = None if shown.sent.asked is None else earlier.get(shown.sent.asked)
        if not _still_counts(shown, current.get(shown.prefix), now):
            outcomes[place] = KeyChanged()
        elif known is not None:
            outcomes[place] = known if isinstance(known, CorralError) else Told(known, is_replay=True)
    fresh = {place: shown.sent for place, shown in enumerate(group) if place not in outcomes}
    outcomes |= _queue(session, fresh, now)
    return [outcomes[place] for place in range(len(group))]


def _queue(session: Session, fresh: Mapping[int, Sent], now: Instant) -> dict[int, Told | Exception]:
    """Queue what is new, by its place in the group."""
    if not fresh:
        return {}
    outcomes: dict[int, Told | Exception] = {}
    kept: dict[Asked, Answer] = {}
    queued = submit(session, [sent.order for sent in fresh.values()], now)
    for (place, sent), outcome in zip(fresh.items(), queued, strict=True):
        if isinstance(outcome, CorralError):
            outcomes[place] = outcome
            continue
        answer = Answer(201, sent.answer(outcome))
        outcomes[place] = Told(answer, is_replay=False)
        append(session, sent.change(outcome[0].job_id))
        if sent.asked is not None:
            kept[sent.asked] = answer
    keep_all(session, kept, now)
    return outcomes


def _still_counts(shown: Shown, current: Witness | None, now: Instant) -> bool:
    """Whether all that decided what the key may do stands as it did. (Its tenant's state is the order's matter.)"""
    if current is None or current != shown.witness:
        return False
    return current.until_us is None or now < current.until_us


async def app_submitter(request: Request) -> Submitter:
    """The process's; what goes through it is noted for the audit."""
    found: Submitter = request.app.state.submitter
    return found


AppSubmitter = Annotated[Submitter, Depends(app_submitter)]
