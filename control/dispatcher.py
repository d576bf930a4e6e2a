"""The leader's loop: a snapshot, a plan, a commit that checks every placement again, then the hints."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sqlalchemy import Engine

from control.clock import boot_seconds
from control.foresight import Foresight
from control.metrics import Metrics
from control.reasons import ReasonBook
from control.set_aside import SetAside, plan_the_sound
from domain.ids import AttemptId, Fence, Instant, JobId, NodeId
from domain.scheduling.snapshot import Placement, Plan, Reason, Snapshot
from store import parking
from store.assignments import Assigned, PlacementRefused, assign, lock_for
from store.clock import now_us
from store.engine import reading, writing
from store.events import record
from store.health import DATABASE_AWAY
from store.leader import check_epoch
from store.snapshot import SnapshotReader, write_reasons

log = logging.getLogger(__name__)
T = TypeVar("T")

PLACEMENTS_IN_A_COMMIT = 32
"""More would make submissions wait, and the first of them for its start."""
REASONS_IN_A_COMMIT = 500
FULL_PASS_SECONDS = 1.0
"""A pass is made this often though nobody asked for one; less often where it takes long."""
DUTY = 4
"""Time between unasked passes, in CPU time of the last."""
LONG_PASS_SECONDS = 0.1
"""After a pass that cost more than this, the next waits as long, so that many wakings don't take a whole CPU."""


class Sender(Protocol):
    """What the dispatcher says to others."""

    def launch(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None: ...
    def changed(self, *job_ids: JobId) -> None: ...


class Waiter(Protocol):
    """How the dispatcher is woken."""

    def wait(self, seconds: float) -> bool: ...


@dataclass(frozen=True, slots=True)
class PassReport:
    """What a pass did."""

    placed: int
    refused: int
    waiting: int


class Dispatcher:
    """Places queued jobs, as the leader of one epoch. For one thread."""

    def __init__(self, engine: Engine, hints: Sender, epoch: int, metrics: Metrics | None = None) -> None:
        self._engine = engine
        self._hints = hints
        self._epoch = epoch
        self._metrics = metrics or Metrics()
        self._aside = SetAside(boot_seconds)
        self._unreadable: dict[JobId, Exception] = {}
        self._reader = SnapshotReader(self._unreadable.__setitem__)
        self._reasons = ReasonBook()
        self._foresight = Foresight(engine, epoch)

    def serve_once(self, wake: Waiter) -> None:
        """Make a pass, and wait for a reason to make another.

        Raises:
            StaleLeader: somebody else leads.
        """
        began = time.thread_time()  # what the pass cost, whoever else kept the machine busy
        self.run_pass()
        took = time.thread_time() - began
        if wake.wait(max(FULL_PASS_SECONDS, took * DUTY)) and took > LONG_PASS_SECONDS:
            time.sleep(min(took, FULL_PASS_SECONDS))

    def run_pass(self) -> PassReport:
        """Place what fits, and say of the rest why it waits.

        Raises:
            StaleLeader: somebody else leads.
        """
        with self._metrics.pass_seconds.time():
            snapshot, now = self._look()
            plan, culprits = plan_the_sound(snapshot, now)
            for job_id in culprits:
                self._set_aside(job_id, "it can't be planned")
            placed = sum(self._commit(chunk) for chunk in _chunks(plan.placements, PLACEMENTS_IN_A_COMMIT))
            self._tell_reasons(plan)
            self._foresight.look(snapshot, plan)
        self._metrics.passes.inc()
        self._metrics.queue_length.set(len(plan.waiting))
        return PassReport(placed, len(plan.placements) - placed, len(plan.waiting))

    def _look(self) -> tuple[Snapshot, Instant]:
        with reading(self._engine) as session:
            snapshot, now = self._reader.read(session), now_us(session)
        while self._unreadable:
            job_id, error = self._unreadable.popitem()
            self._set_aside(job_id, f"it can't be read: {type(error).__name__}: {error}")
        return self._aside.without(snapshot), now

    def _commit(self, placements: Sequence[Placement]) -> int:
        """Assign these in one transaction, and tell the nodes when it has been committed. How many could be."""
        assigned: dict[JobId, Assigned] = {}
        failed: list[JobId] = []
        with writing(self._engine) as session:
            check_epoch(session, self._epoch)
            lock_for(session, placements)
            for placement in placements:
                try:
                    with session.begin_nested():
                        attempt = assign(session, placement)
                    assigned[placement.job_id] = attempt
                except PlacementRefused as refusal:
                    log.info("job %s was not placed: %s", placement.job_id, refusal)
                    self._metrics.refused.inc()
                except DATABASE_AWAY:
                    raise  # nothing of this commit is stored
                except Exception:  # one job's trouble must not end the pass
                    log.exception("assigning job %s failed", placement.job_id)
                    failed.append(placement.job_id)
        for attempt in assigned.values():
            self._hints.launch(NodeId(attempt.node_id), AttemptId(attempt.attempt_id), Fence(attempt.fence))
        self._hints.changed(*assigned)
        self._metrics.placements.inc(len(assigned))
        for job_id in failed:
            self._set_aside(job_id, "it can't be assigned")
        return len(assigned)

    def _tell_reasons(self, plan: Plan) -> None:
        """Write what changed, in short transactions."""
        for chunk in _chunks(list(self._reasons.news(plan, self._reader.codes).items()), REASONS_IN_A_COMMIT):
            self._write_reasons(dict(chunk))

    def _write_reasons(self, reasons: Mapping[JobId, Reason]) -> None:
        with writing(self._engine) as session:
            check_epoch(session, self._epoch)
            write_reasons(session, reasons)
            parking.hold(session, reasons)
        self._reasons.note(reasons)
        self._hints.changed(*reasons)

    def _set_aside(self, job_id: JobId, why: str) -> None:
        if not self._aside.put(job_id):
            return
        log.error("job %s is left alone for a while: %s", job_id, why)
        self._metrics.failed.inc()
        with writing(self._engine) as session:
            check_epoch(session, self._epoch)
            record(session, "set_aside", job_id=job_id, text="placing it failed by a fault of the platform")


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
