"""Becoming the leader, staying it, and noticing that one is no longer."""

from collections.abc import Callable

from sqlalchemy import Engine

from domain.errors import StaleLeader
from store.engine import reading, writing
from store.leader import Lease, ensure_lease, read_lease, release_lease, renew_lease, take_lease

LEASE_SECONDS = 10.0
"""A standby takes over when it saw the same beat for so long, on its own clock."""
RENEW_SECONDS = 2.0
"""The leader raises the beat this often."""
WATCH_SECONDS = 1.0
"""A standby looks this often."""


class Leadership:
    """One process's part in the lease. For one thread.

    A lease says who should lead; that nobody else commits is ensured by the epoch, in each commit.
    """

    def __init__(self, engine: Engine, holder: str, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._holder = holder
        self._clock = clock
        self._epoch: int | None = None
        self._seen: Lease | None = None
        self._seen_at = 0.0

    @property
    def epoch(self) -> int | None:
        """Of this process's lead; None while it stands by."""
        return self._epoch

    def step(self) -> int | None:
        """Renew the lease, or take it over if its holder is silent or gone. The epoch, if this process leads now."""
        if self._epoch is None:
            self._epoch = self._try_to_take()
        else:
            self._renew(self._epoch)
        return self._epoch

    def step_down(self) -> None:
        """Let the next one lead at once."""
        if self._epoch is not None:
            with writing(self._engine) as session:
                release_lease(session, self._epoch)
            self._epoch = None

    def _renew(self, epoch: int) -> None:
        try:
            with writing(self._engine) as session:
                renew_lease(session, epoch)
        except StaleLeader:
            self._epoch, self._seen = None, None

    def _try_to_take(self) -> int | None:
        with reading(self._engine) as session:
            lease = read_lease(session)
        if lease is None:
            with writing(self._engine) as session:
                ensure_lease(session)
            return self._try_to_take()
        if lease != self._seen:
            self._seen, self._seen_at = lease, self._clock()
        is_silent = self._clock() - self._seen_at >= LEASE_SECONDS
        if lease.holder and not is_silent:
            return None
        with writing(self._engine) as session:
            return take_lease(session, self._holder, lease)
