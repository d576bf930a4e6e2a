"""Finds what nobody told: assignments not claimed, nodes that fell silent, stops not heard, grants that are over.

All silence is measured by this process's own clock, from when it saw something last; a new leader counts afresh, and
so does one that was itself away for a while. No information is not bad news (P6).
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from sqlalchemy import Engine
from sqlmodel import Session

from control.clock import boot_seconds
from domain.errors import StaleLeader
from domain.ids import AttemptId, Fence, JobId, NodeId
from domain.states import AttemptState
from store.deliveries import forget_old
from store.ends import lose, withdraw
from store.engine import reading, writing
from store.health import DATABASE_AWAY
from store.leader import check_epoch
from store.nodes import set_reachable
from store.quota_requests import due, end_due
from store.watch import LiveAttempt, NodeBeat, live_attempts, node_beats, prune

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
HINT_AGAIN_SECONDS = 5.0
"""An assignment that nobody claimed is told to its node again after this time."""
UNCLAIMED_SECONDS = 30.0
"""An assignment that nobody claimed is withdrawn after this time."""
STOP_AGAIN_SECONDS = 10.0
UNREACHABLE_SECONDS = 60.0
"""A node without a new beat for so long is unreachable."""
KILL_SECONDS = 30.0
"""What a node may take, after the grace, until nothing of a sandbox is left."""
POLLING_SECONDS = 15.0
"""What a watchdog's and the sweeper's own polling may add, and two clocks drift apart in a day."""
BLIND_SECONDS = 15.0
"""A sweeper that saw nothing for so long, because it or the database was away, knows nothing of anybody's silence."""
PRUNE_SECONDS = 600.0


class Sender(Protocol):
    """What the sweeper says to others."""

    def wake(self) -> None: ...
    def launch(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None: ...
    def stop(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None: ...
    def changed(self, *job_ids: JobId) -> None: ...


class Sweeper:
    """Sweeps, as the leader of one epoch. For one thread.

    Args:
        clock: seconds that never step.
    """

    def __init__(self, engine: Engine, hints: Sender, epoch: int, clock: Callable[[], float] = boot_seconds) -> None:
        self._engine = engine
        self._hints = hints
        self._epoch = epoch
        self._clock = clock
        self._swept_at: float | None = None
        self._pruned_at: float | None = None
        self._beats: dict[NodeId, tuple[int, float]] = {}
        """Of each node: its last beat, and when it was seen first."""
        self._waits: dict[AttemptId, tuple[AttemptState, float, float]] = {}
        """Of each attempt that waits for its node: as what, since when, and when its node was told last."""

    def sweep(self) -> None:
        """Look at everything once.

        Raises:
            StaleLeader: somebody else leads.
        """
        with reading(self._engine) as session:
            nodes, attempts, grants = node_beats(session), live_attempts(session), due(session)
        self._end_grants(grants)
        now = self._clock()
        if self._swept_at is not None and now - self._swept_at > BLIND_SECONDS:
            self._beats.clear()
            self._waits.clear()
        self._swept_at = now
        silences = {node.node_id: self._silence(node, now) for node in nodes}
        self._judge_nodes(nodes, silences)
        lost = self._lose_attempts(attempts, {node.node_id for node in nodes if node.is_lost}, silences)
        self._press([each for each in attempts if each.attempt_id not in lost], silences, now)
        if self._pruned_at is None or now - self._pruned_at >= PRUNE_SECONDS:
            self._pruned_at = now
            self._write(prune)
            self._write(forget_old)

    def _end_grants(self, request_ids: Sequence[str]) -> None:
        """Count no more what was granted until now. Nothing new starts by it since its end, swept or not."""
        ended = [each for each in request_ids if self._write(partial(end_due, request_id=each))]
        if ended:
            self._hints.wake()

    def _silence(self, node: NodeBeat, now: float) -> float:
        """Seconds since its beat was seen to rise."""
        beat, since = self._beats.get(node.node_id, (None, now))
        if beat != node.beat:
            since = now
        self._beats[node.node_id] = (node.beat, since)
        return now - since

    def _judge_nodes(self, nodes: Iterable[NodeBeat], silences: dict[NodeId, float]) -> None:
        """Call silent nodes unreachable. That one is back is written with its heartbeat."""
        for node in nodes:
            if node.is_reachable and silences[node.node_id] >= UNREACHABLE_SECONDS:
                log.warning("node %s is unreachable", node.node_id)
                self._write(partial(set_reachable, node_id=node.node_id, is_reachable=False))

    def _lose_attempts(
        self, attempts: Sequence[LiveAttempt], lost_nodes: set[NodeId], silences: dict[NodeId, float]
    ) -> set[AttemptId]:
        """Give up what is on nodes that an admin declared lost, or that were silent for longer than the job allows."""
        lost = {
            each.attempt_id: each.job_id
            for each in attempts
            if each.node_id in lost_nodes or silences.get(each.node_id, 0.0) >= _patience_seconds(each)
        }
        for attempt_id, job_id in lost.items():
            log.warning("attempt %s is given up with its node", attempt_id)
            if self._write(partial(lose, attempt_id=attempt_id)):
                self._tell(job_id)
        return set(lost)

    def _press(self, attempts: Sequence[LiveAttempt], silences: dict[NodeId, float], now: float) -> None:
        """Say again what should have been heard; take back what nobody claims."""
        waiting = [each for each in attempts if each.state in (AttemptState.ASSIGNED, AttemptState.STOPPING)]
        self._waits = {each.attempt_id: self._wait_of(each, now) for each in waiting}
        for each in waiting:
            _, since, told = self._waits[each.attempt_id]
            if each.state is AttemptState.ASSIGNED and now - since >= UNCLAIMED_SECONDS:
                if self._write(partial(withdraw, attempt_id=each.attempt_id)):
                    self._tell(each.job_id)
            elif silences.get(each.node_id, 0.0) < UNREACHABLE_SECONDS and now - told >= _interval_seconds(each):
                self._waits[each.attempt_id] = (each.state, since, now)
                send = self._hints.launch if each.state is AttemptState.ASSIGNED else self._hints.stop
                send(each.node_id, each.attempt_id, each.fence)

    def _wait_of(self, attempt: LiveAttempt, now: float) -> tuple[AttemptState, float, float]:
        known = self._waits.get(attempt.attempt_id)
        return known if known is not None and known[0] is attempt.state else (attempt.state, now, now)

    def _write(self, change: Callable[[Session], object]) -> bool:
        """Whether the change was committed. One that fails is logged, and does not keep the others from theirs."""
        try:
            with writing(self._engine) as session:
                check_epoch(session, self._epoch)
                change(session)
        except StaleLeader:
            raise
        except DATABASE_AWAY:
            raise
        except Exception:  # one row's trouble must not end the sweep
            log.exception("a change by the sweeper failed")
            return False
        return True

    def _tell(self, job_id: JobId) -> None:
        self._hints.wake()
        self._hints.changed(job_id)


def _patience_seconds(attempt: LiveAttempt) -> float:
    """How long its node may be silent, with the time that the node needs to stop the sandbox by itself."""
    if attempt.max_unreachable_us is None:
        return float("inf")
    return (attempt.max_unreachable_us + attempt.grace_us) / 1e6 + KILL_SECONDS + POLLING_SECONDS


def _interval_seconds(attempt: LiveAttempt) -> float:
    return HINT_AGAIN_SECONDS if attempt.state is AttemptState.ASSIGNED else STOP_AGAIN_SECONDS
