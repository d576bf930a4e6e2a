"""Which of the reasons in a plan are news."""

from collections.abc import Mapping
from itertools import islice

from domain.ids import JobId
from domain.scheduling.snapshot import Plan, Reason

NUMBERS_IN_A_PASS = 500
"""Numbers change for everybody whenever a job starts; so many are written at a time."""


class ReasonBook:
    """Remembers what was written about each job that waits."""

    def __init__(self) -> None:
        self._told: dict[JobId, Reason] = {}

    def news(self, plan: Plan, codes: Mapping[JobId, str | None]) -> dict[JobId, Reason]:
        """All reasons with another code than stands in the database, and some of those with other numbers.

        Args:
            codes: as they stand in the database.
        """
        self._told = {job_id: reason for job_id, reason in self._told.items() if job_id in plan.waiting}
        recoded = {job_id: reason for job_id, reason in plan.waiting.items() if codes.get(job_id) != reason.code}
        renumbered = (
            (job_id, reason)
            for job_id, reason in plan.waiting.items()
            if job_id not in recoded and self._told.get(job_id) != reason
        )
        return recoded | dict(islice(renumbered, NUMBERS_IN_A_PASS))

    def note(self, written: Mapping[JobId, Reason]) -> None:
        """These were written."""
        self._told.update(written)
