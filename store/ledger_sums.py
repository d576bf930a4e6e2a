"""What the ledger sums up to for the owner of a purse: from this a purse is opened, and a recount compares with it."""

from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.sql import ColumnElement, Select
from sqlmodel import Session

from domain import budget
from domain.budget import Line
from domain.money import Cause, EntryKind
from domain.purse import TOTAL, Unit
from domain.purse_words import KEY
from domain.scheduling.snapshot import WHOLE_GPU
from store.base import table_of
from store.tables import ApiKey, Job, LedgerEntry, Tenant

_ENTRY, _JOB, _TENANT, _KEY = (table_of(row) for row in (LedgerEntry, Job, Tenant, ApiKey))
_IS_CHARGED = _ENTRY.c.cause.not_in([cause.value for cause in Cause if not cause.is_charged])
_GPU_TIME = case(
    (_ENTRY.c.share_milli == WHOLE_GPU, _ENTRY.c.duration_us),
    else_=_ENTRY.c.duration_us * _ENTRY.c.share_milli / WHOLE_GPU,
)


def ledger_sum(session: Session, owner_id: str, unit: Unit, period: str) -> int:
    """What the owner's purse would have spent, had it been there from the first line of the ledger on."""
    if unit is Unit.GPUS_MILLI:
        return 0
    if period == TOTAL:
        return _sum(session, unit, _owned(owner_id))
    from_us = budget.month_first(period)
    return ledger_sum_between(session, owner_id, unit, from_us, budget.month_end(from_us))


def ledger_sum_between(session: Session, owner_id: str, unit: Unit, from_us: int, until_us: int) -> int:
    """What lies between two instants of it; a line that crosses one of them is cut there."""
    owned = _owned(owner_id)
    starts, ends = _ENTRY.c.from_us, _ENTRY.c.until_us
    touches = owned & (starts < until_us) & ((ends > from_us) | (starts >= from_us))
    is_inside = (starts >= from_us) & (ends <= until_us)
    total = _sum(session, unit, touches & is_inside)
    for row in session.connection().execute(select(_ENTRY).where(touches, ~is_inside)):
        line = Line(Cause(row.cause), row.from_us, row.until_us, row.duration_us, row.share_milli, row.cost_micro)
        total += budget.part_between(line, unit, from_us, until_us)
    return total


def _sum(session: Session, unit: Unit, condition: ColumnElement[bool]) -> int:
    if unit is Unit.MONEY:
        query: Select[Any] = select(func.coalesce(func.sum(_ENTRY.c.cost_micro), 0)).where(condition)
    else:
        query = select(func.coalesce(func.sum(_GPU_TIME), 0)).where(condition, _IS_CHARGED)
    return int(session.connection().execute(query).scalar_one())


def _owned(owner_id: str) -> ColumnElement[bool]:
    """Lines of the tenant and of all below it, or of jobs that the key or one made by it submitted."""
    if not owner_id.startswith(KEY):
        return _ENTRY.c.tenant_id.in_(_below(_TENANT.c.id, _TENANT.c.parent_id, owner_id))
    keys = _below(_KEY.c.id, _KEY.c.parent_key_id, owner_id)
    # what an admin credits or debits is the tenant's, though it may name a job
    return (_ENTRY.c.kind != EntryKind.ADJUSTMENT.value) & _ENTRY.c.job_id.in_(
        select(_JOB.c.id).where(_JOB.c.key_id.in_(keys))
    )


def _below(row_id: Any, parent_id: Any, owner_id: str) -> Select[Any]:
    """The ids of a row and of all below it in its tree."""
    found = select(row_id.label("id")).where(row_id == owner_id).cte(recursive=True)
    found = found.union_all(select(row_id).where(parent_id == found.c.id))
    return select(found.c.id)
