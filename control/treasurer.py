"""Keeps what runs within what may be spent: preemptible attempts are told to stop when what pays for them is spent, and
jobs that were held for that go back into the queue when there is more."""

import logging
from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import Engine

from domain.ids import AttemptId, Fence, JobId, NodeId
from store import parking
from store.attempts import StopHint
from store.engine import reading, writing
from store.jobs import job_of
from store.leader import check_epoch

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""What is spent beyond a bound, of attempts that may be stopped, is at most what they cost in this time and their
grace."""


class Sender(Protocol):
    """What the treasurer says to others."""

    def wake(self) -> None: ...
    def stop(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None: ...
    def changed(self, *job_ids: JobId) -> None: ...


class Treasurer:
    """Looks at the purses, as the leader of one epoch. For one thread."""

    def __init__(self, engine: Engine, hints: Sender, epoch: int) -> None:
        self._engine = engine
        self._hints = hints
        self._epoch = epoch

    def look(self) -> None:
        """Stop what is overdrawn, and let go what can be paid again.

        Raises:
            StaleLeader: somebody else leads.
        """
        with reading(self._engine) as session:
            payable, overdrawn = parking.payable(session), parking.overdrawn(session)
        if payable:
            self._let_go(payable)
        for attempt_id in overdrawn:
            self._stop(attempt_id)

    def _let_go(self, payable: Sequence[JobId]) -> None:
        with writing(self._engine) as session:
            check_epoch(session, self._epoch)
            moved = parking.let_go(session, payable)
        self._hints.changed(*moved)
        self._hints.wake()

    def _stop(self, attempt_id: str) -> None:
        with writing(self._engine) as session:
            check_epoch(session, self._epoch)
            hint = parking.stop(session, attempt_id)
            job_id = job_of(session, attempt_id)
        if hint is not None:
            log.info("attempt %s is told to stop: what pays for it is spent", attempt_id)
            self._tell(hint, JobId(job_id))

    def _tell(self, hint: StopHint, job_id: JobId) -> None:
        self._hints.stop(NodeId(hint.node_id), AttemptId(hint.attempt_id), Fence(hint.fence))
        self._hints.changed(job_id)
