"""Jobs whose handling failed by an error of ours are left alone for a while, so that one can't hold up the others."""

import logging
from collections.abc import Callable
from dataclasses import replace

from domain.ids import Instant, JobId
from domain.scheduling.plan import plan
from domain.scheduling.snapshot import Plan, Snapshot

log = logging.getLogger(__name__)

ASIDE_SECONDS = 60.0


class SetAside:
    """The jobs that are left alone, and until when."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[JobId, float] = {}

    def put(self, job_id: JobId) -> bool:
        """Leave it alone from now on. Whether it was not left alone before."""
        is_new = job_id not in self._until
        self._until[job_id] = self._clock() + ASIDE_SECONDS
        return is_new

    def without(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot, without the jobs that are left alone now."""
        now = self._clock()
        self._until = {job_id: until for job_id, until in self._until.items() if until > now}
        if not self._until:
            return snapshot
        return replace(snapshot, queue=tuple(each for each in snapshot.queue if each.job_id not in self._until))


def plan_the_sound(snapshot: Snapshot, now: Instant) -> tuple[Plan, tuple[JobId, ...]]:
    """The plan, and the jobs that had to be left out because the policy fails on them."""
    try:
        return plan(snapshot, now), ()
    except Exception:  # whatever it is, the other jobs must go on
        log.exception("the policy failed; every job is tried by itself")
    culprits = tuple(each.job_id for each in snapshot.queue if not _can_be_planned(snapshot, each.job_id, now))
    sound = replace(snapshot, queue=tuple(each for each in snapshot.queue if each.job_id not in set(culprits)))
    return plan(sound, now), culprits


def _can_be_planned(snapshot: Snapshot, job_id: JobId, now: Instant) -> bool:
    alone = replace(snapshot, queue=tuple(each for each in snapshot.queue if each.job_id == job_id))
    try:
        plan(alone, now)
    except Exception:  # asked for exactly this
        log.exception("the policy fails on job %s", job_id)
        return False
    return True
