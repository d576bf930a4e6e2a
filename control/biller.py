"""Posts the hours of allocations that are still open, so that the books are never far behind."""

from collections.abc import Callable

from sqlalchemy import Engine

from control.clock import boot_seconds
from store.engine import writing
from store.leader import check_epoch
from store.ledger import post_open

POST_SECONDS = 3600.0
LOOK_SECONDS = 30.0
"""How often it looks whether the hour is over."""


class Biller:
    """Posts at its start and every hour from then on, as the leader of one epoch. For one thread."""

    def __init__(self, engine: Engine, epoch: int, clock: Callable[[], float] = boot_seconds) -> None:
        self._engine = engine
        self._epoch = epoch
        self._clock = clock
        self._posted_at: float | None = None

    def post_if_due(self) -> None:
        """Post, if an hour has passed since the last time.

        Raises:
            StaleLeader: somebody else leads.
        """
        now = self._clock()
        if self._posted_at is not None and now - self._posted_at < POST_SECONDS:
            return
        with writing(self._engine) as session:
            check_epoch(session, self._epoch)
            post_open(session)
        self._posted_at = now
