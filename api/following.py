"""Follows a job: its log across all attempts, its state and why it waits, until it is over.

One coroutine each. Redis only says "look again"; the database and the log's segments are what is looked at.
"""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

import anyio
from corral.jobs import WaitReason
from sqlmodel import Session
from sse_starlette import ServerSentEvent

from api.callers import Caller
from api.logs import Logs
from api.transactions import Database
from api.views.jobs import wait_reason
from domain.errors import CorralError, Limit, Unauthenticated
from domain.ids import JobId
from domain.states import AttemptState, JobState
from hints.changes import ChangeListener
from store import jobs, keys
from store.health import DATABASE_AWAY

log = logging.getLogger(__name__)

PIECE_BYTES = 64 * 1024
"""Of a log, in one event."""
LOOK_SECONDS = 2.0
"""A follower looks again after this long at the latest, whether or not it was told to."""


@dataclass(slots=True)
class Reached:
    """How far a follower has come: the attempt's number, and the offset after the last byte it was sent."""

    attempt: int
    offset: int


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt, as far as following it goes."""

    id: str
    number: int
    is_over: bool
    """Nothing is added to its log any more."""


@dataclass(frozen=True, slots=True)
class Look:
    """What there was to see at one moment."""

    state: JobState
    exit_code: int | None
    reason: WaitReason | None
    attempts: tuple[Tried, ...]


class Follower:
    """One client that follows one job."""

    def __init__(self, job_id: JobId, caller: Caller, database: Database, logs: Logs, start: Reached) -> None:
        self.job_id = job_id
        self._caller = caller
        self._database = database
        self._logs = logs
        self._reached = start
        self._state: JobState | None = None
        self._reason: WaitReason | None = None

    async def events(self, changed: asyncio.Event) -> AsyncIterator[ServerSentEvent]:
        """What is new, at each look, until the job is over or the key no longer counts."""
        while True:
            changed.clear()
            look = await self._look()
            if look is not None:
                async for event in self._news(look):
                    yield event
                if look.state.is_terminal:
                    yield _event("end", {"state": look.state, "exit_code": look.exit_code})
                    return
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), LOOK_SECONDS)

    async def _look(self) -> Look | None:
        """None while the database is away: no information is not bad news."""
        try:
            return await self._database.read(self._seen)
        except DATABASE_AWAY:
            return None

    def _seen(self, session: Session) -> Look:
        if not keys.is_valid(session, self._caller.key_id):
            raise Unauthenticated
        job = jobs.find(session, self._caller.scope, self.job_id)
        tried = jobs.attempts_from(session, self.job_id, self._reached.attempt)
        return Look(
            JobState(job.state),
            job.exit_code,
            wait_reason(job),
            tuple(Tried(each.id, each.number, each.state == AttemptState.ENDED) for each in tried),
        )

    async def _news(self, look: Look) -> AsyncIterator[ServerSentEvent]:
        """The log comes before the state that it led to: the end is told last."""
        if look.reason is not None and look.reason != self._reason:
            yield _event("reason", look.reason.model_dump())
        self._reason = look.reason
        if not look.state.is_terminal and look.state != self._state:
            yield _event("state", {"state": look.state})
        for tried in look.attempts:
            async for event in self._pieces(tried):
                yield event
        if look.state.is_terminal and look.state != self._state:
            yield _event("state", {"state": look.state})
        self._state = look.state

    async def _pieces(self, tried: Tried) -> AsyncIterator[ServerSentEvent]:
        """What is new in one attempt's log. `tried` was read before: if it is over, all of its log is there."""
        if tried.number > self._reached.attempt:
            self._reached = Reached(tried.number, 0)
        while data := await self._piece(tried.id):
            begin = self._reached.offset
            self._reached = Reached(tried.number, begin + len(data))
            content = {"attempt": tried.number, "offset": begin, "data": base64.b64encode(data).decode()}
            yield _event("log", content, id=f"{tried.number}:{self._reached.offset}")

    async def _piece(self, attempt_id: str) -> bytes:
        begin = self._reached.offset
        return await anyio.to_thread.run_sync(self._logs.read, attempt_id, begin, begin + PIECE_BYTES)


class Followers:
    """All followers of a process: as many as it has room for."""

    def __init__(self, listener: ChangeListener, followers_max: int) -> None:
        self._listener = listener
        self._followers_max = followers_max
        self._count = 0

    def follow(self, follower: Follower) -> AsyncIterator[ServerSentEvent]:
        """The follower's events.

        Raises:
            Limit: there are as many followers as may be.
        """
        if self._count >= self._followers_max:
            raise Limit("too many clients follow logs here", "read the log with ?since= instead")
        return self._events(follower)

    async def _events(self, follower: Follower) -> AsyncIterator[ServerSentEvent]:
        self._count += 1
        try:
            async with self._listener.subscribe(follower.job_id) as changed:
                async for event in follower.events(changed):
                    yield event
        except CorralError as ending:
            log.info("a follower of %s was let go: %s", follower.job_id, type(ending).__name__)
        finally:
            self._count -= 1


def _event(name: str, content: object, id: str | None = None) -> ServerSentEvent:
    return ServerSentEvent(data=json.dumps(content), event=name, id=id, sep="\n")
