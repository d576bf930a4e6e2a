"""Tells followers in an API process that a job has changed, over one connection for the whole process.

A change is a hint as well: it says "look again", and nothing of what there is to see.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from domain.ids import JobId
from hints.names import job_channel
from hints.urls import for_redis_py, keep_alive

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""While Redis is away, every follower is told to look again this often."""
HEALTH_SECONDS = 10
"""A connection that is silent this long is asked whether it still lives."""
CONNECT_SECONDS = 1.0
OPEN_CHANNEL = "corral.job."
"""Subscribed to always, so that the connection stands before the first follower comes."""


class ChangeListener:
    """One subscription to Redis, shared by all followers of a process.

    async with ChangeListener(redis_url) as listener:
        async with listener.subscribe(job_id) as changed:
            while True:
                changed.clear()
                ...  # read the database
                await changed.wait()
    """

    def __init__(self, redis_url: str) -> None:
        self._client = Redis.from_url(
            for_redis_py(redis_url),
            socket_connect_timeout=CONNECT_SECONDS,
            health_check_interval=HEALTH_SECONDS,
            retry=Retry(NoBackoff(), 0),
            **keep_alive(redis_url),
        )
        self._followers: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._pubsub: PubSub | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._listen_always(), name="changes")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    @asynccontextmanager
    async def subscribe(self, job_id: JobId) -> AsyncIterator[asyncio.Event]:
        """An event that is set on each change of the job; clear it before each look.

        It may also be set without a change: when the subscription begins to be heard, after a lost connection, and
        every `POLL_SECONDS` while Redis is away. So no change is missed by a follower that looks whenever it is set.
        """
        channel, event = job_channel(job_id), asyncio.Event()
        is_first = not self._followers[channel]
        self._followers[channel].add(event)
        try:
            if is_first:
                await self._tell("subscribe", channel)
            yield event
        finally:
            self._followers[channel].discard(event)
            if not self._followers[channel]:
                del self._followers[channel]
                await self._tell("unsubscribe", channel)

    async def _tell(self, command: str, channel: str) -> None:
        if self._pubsub is None:
            return  # once there is a connection again, it begins with every channel that has followers
        try:
            await getattr(self._pubsub, command)(channel)
        except (RedisError, OSError):
            self._pubsub = None  # the listener sees it, and begins again

    async def _listen_always(self) -> None:
        is_away = False
        while True:
            try:
                async with self._client.pubsub() as pubsub:
                    await pubsub.subscribe(OPEN_CHANNEL, *self._followers)
                    self._pubsub, is_away = pubsub, False
                    self._set_all()
                    while self._pubsub is pubsub:
                        self._pass_on(await pubsub.get_message(timeout=HEALTH_SECONDS))
            except (RedisError, OSError) as error:
                if not is_away:
                    log.warning("Redis is away (%s); followers look every %s s", error, POLL_SECONDS)
                is_away = True
            finally:
                self._pubsub = None
            self._set_all()
            await asyncio.sleep(POLL_SECONDS)

    def _pass_on(self, message: dict[str, Any] | None) -> None:
        if message is not None and message["channel"] is not None:
            for event in self._followers.get(message["channel"].decode(), ()):
                event.set()

    def _set_all(self) -> None:
        for events in self._followers.values():
            for event in events:
                event.set()
