"""How often a key, a tenant or an address may ask, counted over all API processes by Redis.

A process takes tokens from Redis in handfuls and spends them without asking again, so that a limit costs a request next
to nothing; what a process has taken and does not use within the window is lost, a twentieth of the limit at most. When
Redis is away or slow, each process counts for itself by the same numbers: nobody is let through or shut out for that.
"""

import asyncio
import logging
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from redis.asyncio import ConnectionPool
from redis.exceptions import RedisError

from api.metrics import Metrics
from domain.errors import RateLimited
from hints.urls import for_redis_py

log = logging.getLogger(__name__)

HANDFULS = 20
"""A handful is a limit divided by this."""
REDIS_SECONDS = 0.05
"""Longest wait for Redis's answer."""
REST_SECONDS = 5.0
"""After a failure, Redis is left alone for this long."""
REFUSED_SECONDS = 1.0
"""Who was refused is refused without another look for no longer than this."""
HELD_MAX = 20_000
"""Keys, tenants and addresses of which a process keeps tokens at once."""
PREFIX = "corral:rate"
OUTAGES = (RedisError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Rule:
    """A limit: of what, and how often."""

    name: str
    item: RateLimitItem | None
    """None for no limit."""

    @classmethod
    def of(cls, name: str, text: str, factor: int = 1) -> "Rule":
        """A limit as a setting has it: `300/second`, `10/minute`, or nothing.

        Raises:
            ValueError: it is written otherwise.
        """
        if not text:
            return cls(name, None)
        item = parse(text)
        return cls(name, type(item)(item.amount * factor, item.multiples, item.namespace))


@dataclass(slots=True)
class _Held:
    """What this process holds of a limit, until a moment: tokens, or a refusal."""

    tokens: int
    left: int
    """Of the window, beyond these tokens, when they were taken."""
    resets_at: float
    until: float
    is_refused: bool


class RateLimits:
    """The limits of one process. For one event loop."""

    def __init__(self, redis_url: str, metrics: Metrics) -> None:
        url = for_redis_py(redis_url)
        self._pool = ConnectionPool.from_url(url, socket_connect_timeout=REDIS_SECONDS)
        self._storage = RedisStorage(
            f"async+{url.replace('unix://', 'redis+unix://', 1)}",
            implementation="redispy",
            key_prefix=PREFIX,
            connection_pool=self._pool,  # type: ignore[arg-type]  # it is passed through
        )
        self._shared = SlidingWindowCounterRateLimiter(self._storage)
        self._own = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._metrics = metrics
        self._held: dict[tuple[str, str], _Held] = {}
        self._asking: dict[tuple[str, str], asyncio.Event] = {}
        """Set once it was asked for another handful."""
        self._rests_until = 0.0
        self._is_away = False

    def refuse_if_spent(self, rules: Iterable[Rule], who: str) -> None:
        """Refuse at once, and without a look anywhere, who was just refused.

        Raises:
            RateLimited: its window is not over yet.
        """
        for rule in rules:
            held = self._held.get((rule.name, who))
            if held is not None and held.is_refused and held.until > time.monotonic():
                raise self._refusal(rule, held)

    async def take(self, rule: Rule, who: str) -> tuple[str, str] | None:
        """Take one token; the limit's lines for `RateLimit-Policy` and `RateLimit`, if there is one.

        Raises:
            RateLimited: there is none left in this window.
        """
        if rule.item is None or not who:
            return None
        while not _counts(held := self._held.get((rule.name, who))):
            await self._ask(rule.item, rule.name, who)
        if held.is_refused:
            raise self._refusal(rule, held)
        held.tokens -= 1
        seconds = max(0, math.ceil(held.resets_at - time.time()))
        window = rule.item.get_expiry()
        return (
            f'"{rule.name}";q={rule.item.amount};w={window}',
            f'"{rule.name}";r={held.left + held.tokens};t={seconds}',
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self._pool.disconnect()

    async def _ask(self, item: RateLimitItem, name: str, who: str) -> None:
        """Take another handful; many who find none left together take one, not one each."""
        if (asked := self._asking.get((name, who))) is not None:
            await asked.wait()
            return
        self._asking[name, who] = asked = asyncio.Event()
        try:
            self._held[name, who] = await self._taken(item, name, who)
            self._forget()
        finally:
            del self._asking[name, who]
            asked.set()

    async def _taken(self, item: RateLimitItem, name: str, who: str) -> _Held:
        """A handful, or the last one token, or none."""
        if time.monotonic() >= self._rests_until:
            try:
                async with asyncio.timeout(REDIS_SECONDS):
                    held = await _asked(self._shared, item, name, who)
            except OUTAGES as error:
                self._rest(error)
            else:
                self._is_away = False
                return held
        self._metrics.rate_fallbacks.inc()
        return await _asked(self._own, item, name, who)

    def _rest(self, error: BaseException) -> None:
        self._rests_until = time.monotonic() + REST_SECONDS
        if not self._is_away:
            log.warning("Redis can't be asked for rates (%s); this process counts for itself", type(error).__name__)
        self._is_away = True

    def _refusal(self, rule: Rule, held: _Held) -> RateLimited:
        self._metrics.rate_refusals.labels(rule.name).inc()
        return RateLimited(rule.name, str(rule.item), max(1, math.ceil(held.resets_at - time.time())))

    def _forget(self) -> None:
        """Keep within memory, whoever asks."""
        if len(self._held) > HELD_MAX:
            now = time.monotonic()
            self._held = {key: held for key, held in self._held.items() if held.until > now}
            if len(self._held) > HELD_MAX:
                self._held.clear()


def _counts(held: _Held | None) -> TypeGuard[_Held]:
    """Whether nobody needs to be asked."""
    return held is not None and held.until > time.monotonic() and (held.tokens > 0 or held.is_refused)


async def _asked(limiter: SlidingWindowCounterRateLimiter, item: RateLimitItem, name: str, who: str) -> _Held:
    handful = max(1, item.amount // HANDFULS)
    tokens = 0
    for cost in sorted({handful, 1}, reverse=True):
        if await limiter.hit(item, name, who, cost=cost):
            tokens = cost
            break
    stats = await limiter.get_window_stats(item, name, who)
    seconds = min(REFUSED_SECONDS, max(0.05, stats.reset_time - time.time())) if not tokens else item.get_expiry()
    return _Held(tokens, stats.remaining, stats.reset_time, time.monotonic() + seconds, not tokens)
