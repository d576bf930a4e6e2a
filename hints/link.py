"""A link to Redis that may be down: it is tried, given up quickly, and left alone for a moment afterwards."""

import logging
import threading
import time
from collections.abc import Callable

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

REST_SECONDS = 1.0
"""After a failure, nothing is tried for this long."""
OUTAGES = (RedisError, OperationalError, OSError)
"""What it looks like when Redis is away, full, loading or refuses; none of these may harm who wanted to give a hint."""


class Link:
    """Attempts calls over Redis; any thread may use it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._rests_until = 0.0
        self._is_away = False

    def attempt(self, call: Callable[[], object]) -> bool:
        """Whether the call went through. An outage is logged once, and once more when it is over."""
        if self._now() < self._rests_until:
            return False
        try:
            call()
        except OUTAGES as error:
            self._fail(error)
            return False
        self._succeed()
        return True

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._rests_until = self._now() + REST_SECONDS
            if not self._is_away:
                log.warning("Redis can't be reached (%s); hints are dropped, the sweep makes up for them", error)
            self._is_away = True

    def _succeed(self) -> None:
        if self._is_away:
            with self._lock:
                self._is_away = False
            log.warning("Redis is back")
