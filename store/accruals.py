"""What runs now: what it uses an hour, and what it has used since that was posted last."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlmodel import Session

from domain.money import GPU_HOUR, HOUR_US
from domain.purse import Unit
from domain.scheduling.snapshot import WHOLE_GPU
from store.base import table_of
from store.clock import now_us
from store.tables import Allocation, Attempt, Job, Node

_ALLOCATION, _ATTEMPT, _JOB, _NODE = (table_of(row) for row in (Allocation, Attempt, Job, Node))
_OPEN = (
    select(
        _ALLOCATION.c.attempt_id,
        _ALLOCATION.c.tenant_id,
        _JOB.c.key_id,
        _ALLOCATION.c.share_milli,
        _ALLOCATION.c.price_micro_per_gpu_hour,
        _ALLOCATION.c.posted_until_us,
        _NODE.c.last_beat_us,
    )
    .join(_ATTEMPT, _ATTEMPT.c.id == _ALLOCATION.c.attempt_id)
    .join(_JOB, _JOB.c.id == _ATTEMPT.c.job_id)
    .join(_NODE, _NODE.c.id == _ATTEMPT.c.node_id)
    .where(_ALLOCATION.c.until_us.is_(None))
)


@dataclass(frozen=True, slots=True)
class Accrual:
    """A device that is held now."""

    attempt_id: str
    tenant_id: str
    key_id: str | None
    share_milli: int
    price_micro_per_gpu_hour: int
    unposted_us: int
    """Since the ledger's last line of it, and never past the node's last heartbeat."""

    def rate_of(self, unit: Unit) -> int:
        """What it uses an hour."""
        an_hour = self.price_micro_per_gpu_hour if unit is Unit.MONEY else HOUR_US
        return an_hour * self.share_milli // WHOLE_GPU

    def amount_of(self, unit: Unit) -> int:
        """What it has used and not posted, all of it at the full price."""
        used = self.unposted_us * self.share_milli
        return used * self.price_micro_per_gpu_hour // GPU_HOUR if unit is Unit.MONEY else used // WHOLE_GPU


def accruals(session: Session) -> list[Accrual]:
    """Of every device that is held now."""
    now = now_us(session)
    return [
        Accrual(
            row.attempt_id,
            row.tenant_id,
            row.key_id,
            row.share_milli,
            row.price_micro_per_gpu_hour,
            max(0, min(now, row.last_beat_us or 0) - row.posted_until_us),
        )
        for row in session.connection().execute(_OPEN)
    ]
