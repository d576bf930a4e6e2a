"""Tells nodes which images to pull before their jobs' turn: what the last plan foresees, written when it changes."""

import logging
from collections.abc import Callable

from sqlalchemy import Engine

from control.clock import boot_seconds
from domain.ids import NodeId
from domain.scheduling.foresight import foresee
from domain.scheduling.snapshot import Plan, Snapshot
from store.engine import reading, writing
from store.image_work import set_wishes, wishes
from store.leader import check_epoch

log = logging.getLogger(__name__)

LOOK_AHEAD_SECONDS = 5.0
"""A node hears of it with its next heartbeat, so looking ahead at each pass would help nobody."""


class Foresight:
    """For one thread, of the leader of one epoch."""

    def __init__(self, engine: Engine, epoch: int, clock: Callable[[], float] = boot_seconds) -> None:
        self._engine = engine
        self._epoch = epoch
        self._clock = clock
        self._looked_at: float | None = None
        self._written: frozenset[tuple[NodeId, str]] | None = None

    def look(self, snapshot: Snapshot, plan: Plan) -> None:
        """Look ahead, if it is time.

        Raises:
            StaleLeader: somebody else leads.
        """
        now = self._clock()
        if self._looked_at is not None and now - self._looked_at < LOOK_AHEAD_SECONDS:
            return
        self._looked_at = now
        wanted = foresee(snapshot, plan)
        if self._written is None:
            with reading(self._engine) as session:
                self._written = frozenset((NodeId(node_id), image) for node_id, image in wishes(session))
        if wanted == self._written:
            return
        with writing(self._engine) as session:
            check_epoch(session, self._epoch)
            set_wishes(session, wanted)
        self._written = wanted
