"""An attempt's hold on purses: the most that it can use is held at its start, moves to spent as it is used, and the
rest is let go at its end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlmodel import Session

from domain import budget
from domain.budget import Line
from domain.money import Cause
from domain.purse import MONTHLY, TOTAL, Place, Purse, Unit
from store.base import table_of
from store.ledger_sums import ledger_sum
from store.purses import Payers, as_purse, change_spent, payers, purses_at
from store.tables import Attempt, Hold, Job, LedgerEntry
from store.tables import Purse as PurseRow

_PURSE, _HOLD, _JOB = table_of(PurseRow), table_of(Hold), table_of(Job)
_KEY_OF_JOB = select(_JOB.c.key_id).where(_JOB.c.id == bindparam("of"))
_IS_PURSE = (
    (_PURSE.c.owner_id == bindparam("of"))
    & (_PURSE.c.unit == bindparam("which"))
    & (_PURSE.c.period == bindparam("during"))
)
_GROW = (
    update(_PURSE)
    .where(_IS_PURSE, bindparam("more") <= _PURSE.c.bound - _PURSE.c.held - _PURSE.c.spent)
    .values(held=_PURSE.c.held + bindparam("more"))
)
_SHRINK = update(_PURSE).where(_IS_PURSE).values(held=_PURSE.c.held - bindparam("less"))
_ADD = insert(_HOLD)
_OF_ATTEMPT = select(_HOLD).where(_HOLD.c.attempt_id == bindparam("attempt"))
_REDUCE = (
    update(_HOLD)
    .where(
        _HOLD.c.attempt_id == bindparam("attempt"),
        _HOLD.c.owner_id == bindparam("of"),
        _HOLD.c.unit == bindparam("which"),
        _HOLD.c.period == bindparam("during"),
    )
    .values(amount=_HOLD.c.amount - bindparam("less"))
)
_DROP = delete(_HOLD).where(_HOLD.c.attempt_id == bindparam("attempt"))


class PurseShort(Exception):
    """A purse has less left than the attempt could use."""

    def __init__(self, purse: Purse, asked: int) -> None:
        super().__init__(f"{purse.unit} of {purse.owner_id} {purse.period}: asked for {asked}, {purse.left} left")
        self.purse = purse
        self.asked = asked


def hold_most(session: Session, paying: Payers, attempt_id: str, amounts: Mapping[Place, int]) -> None:
    """Hold in every purse of the payers the most that the attempt can use. In a savepoint, before the attempt's row
    is shown to anybody.

    Raises:
        PurseShort: one of them has less left.
    """
    rows = purses_at(session, paying, amounts, {})
    for row in rows:
        more = amounts[Unit(row.unit), row.period]
        if session.connection().execute(_GROW, _key(row) | {"more": more}).rowcount != 1:
            raise PurseShort(as_purse(row), more)
    if rows:
        session.connection().execute(
            _ADD,
            [
                {
                    "attempt_id": attempt_id,
                    "owner_id": row.owner_id,
                    "unit": row.unit,
                    "period": row.period,
                    "amount": amounts[Unit(row.unit), row.period],
                }
                for row in rows
            ],
        )


def spend(session: Session, attempt: Attempt, entries: Sequence[LedgerEntry]) -> None:
    """Lines of the attempt were posted: count them in every purse of its payers, from what is held for it first."""
    used = budget.used(map(_line, entries))
    if not used:
        return
    key_id = session.connection().execute(_KEY_OF_JOB, {"of": attempt.job_id}).scalar_one()
    rows = purses_at(session, payers(session, attempt.tenant_id, key_id), used, used)
    if not rows:
        return
    held = {(row.owner_id, row.unit, row.period): row.amount for row in _holds(session, attempt.id)}
    for row in rows:
        amount = used[Unit(row.unit), row.period]
        taken = max(0, min(held.get((row.owner_id, row.unit, row.period), 0), amount))
        change_spent(session, row, amount, taken)
        if taken:
            session.connection().execute(_REDUCE, _key(row) | {"attempt": attempt.id, "less": taken})


def release(session: Session, attempt_id: str) -> None:
    """The attempt is over: nothing is held for it any more."""
    held = _holds(session, attempt_id)
    for row in held:
        session.connection().execute(_SHRINK, _key(row) | {"less": row.amount})
    if held:
        session.connection().execute(_DROP, {"attempt": attempt_id})


def recount(session: Session) -> dict[tuple[str, str, str], tuple[int, int]]:
    """By purse: what `held` and `spent` should say, from the holds and from the ledger. It must always agree."""
    sums = select(_HOLD.c.owner_id, _HOLD.c.unit, _HOLD.c.period, func.sum(_HOLD.c.amount)).group_by(
        _HOLD.c.owner_id, _HOLD.c.unit, _HOLD.c.period
    )
    held: Counter[tuple[str, str, str]] = Counter()
    for owner_id, unit, period, amount in session.connection().execute(sums):
        held[owner_id, unit, period] = int(amount)
    counted = {place: (amount, 0) for place, amount in held.items()}
    for row in session.connection().execute(select(_PURSE).where(_PURSE.c.period != MONTHLY)):
        place = (row.owner_id, row.unit, row.period)
        before = row.before if row.period == TOTAL else 0
        counted[place] = (held[place], ledger_sum(session, row.owner_id, Unit(row.unit), row.period) - before)
    return counted


def _holds(session: Session, attempt_id: str) -> Sequence[Any]:
    return session.connection().execute(_OF_ATTEMPT, {"attempt": attempt_id}).all()


def _line(entry: LedgerEntry) -> Line:
    return Line(
        Cause(entry.cause), entry.from_us, entry.until_us, entry.duration_us, entry.share_milli, entry.cost_micro
    )


def _key(row: Any) -> dict[str, object]:
    return {"of": row.owner_id, "which": row.unit, "during": row.period}
