"""The dispatcher's wake-up: a wait that ends early when somebody has something for it."""

import logging
import time

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from hints.link import OUTAGES
from hints.names import WAKE_KEY
from hints.urls import for_redis_py

log = logging.getLogger(__name__)

LONGEST_WAIT_SECONDS = 4.0
MARGIN_SECONDS = 1.0
"""Redis is given this much longer than the longest wait to answer: a connection may be dead without a sign of it."""
POLL_SECONDS = 1.0
"""Longest wait while Redis is away: then nobody can wake the dispatcher."""


class WakeUp:
    """Waits to be woken. For one thread."""

    def __init__(self, redis_url: str) -> None:
        self._redis = Redis.from_url(
            for_redis_py(redis_url),
            socket_connect_timeout=MARGIN_SECONDS,
            socket_timeout=LONGEST_WAIT_SECONDS + MARGIN_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._is_away = False

    def wait(self, seconds: float) -> bool:
        """Whether somebody called within that time, or since the last wait; all their calls count as one.

        It may return early, without a call, after `LONGEST_WAIT_SECONDS`.
        """
        began = time.monotonic()
        try:
            woken = self._redis.blpop([WAKE_KEY], timeout=min(seconds, LONGEST_WAIT_SECONDS)) is not None
        except OUTAGES as error:
            self._note_outage(error)
            time.sleep(max(0.0, min(seconds, POLL_SECONDS) - (time.monotonic() - began)))
            return False
        self._is_away = False
        return woken

    def close(self) -> None:
        """Let go of the connection."""
        self._redis.close()

    def _note_outage(self, error: BaseException) -> None:
        if not self._is_away:
            log.warning("Redis is away (%s); a pass is made every %s s", error, POLL_SECONDS)
        self._is_away = True
