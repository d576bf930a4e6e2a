"""Purses: what a tenant or a key may spend. One mechanism for budgets, for a month's GPU-hours and money, and for keys.

Whoever changes a purse holds the quota rows of its tenant and of all above (`store.locks.lock_quotas`): so a purse is
opened, held from and settled by one transaction at a time, and what is read of it stays true until it is written.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, insert, or_, select, update
from sqlmodel import Session

from domain import budget, purse_words
from domain.budget import MOST
from domain.errors import Invalid
from domain.purse import MONTHLY, TOTAL, Place, Unit
from domain.purse import Purse as PurseValue
from store.base import table_of
from store.clock import now_us
from store.events import record
from store.key_chains import key_chain
from store.ledger_sums import ledger_sum
from store.locks import lock_quotas, tree
from store.tables import Hold, Purse

_PURSE, _HOLD = table_of(Purse), table_of(Hold)
_IS_IT = (
    (_PURSE.c.owner_id == bindparam("of"))
    & (_PURSE.c.unit == bindparam("which"))
    & (_PURSE.c.period == bindparam("during"))
)
_OF_OWNERS = select(_PURSE).where(
    _PURSE.c.owner_id.in_(bindparam("owners", expanding=True)),
    or_(_PURSE.c.period.in_(bindparam("periods", expanding=True)), _PURSE.c.period == MONTHLY),
)
_OPEN = insert(_PURSE)
_SPEND = (
    update(_PURSE)
    .where(_IS_IT)
    .values(held=_PURSE.c.held - bindparam("taken"), spent=_PURSE.c.spent + bindparam("used"), warned=bindparam("told"))
)
_REBOUND = update(_PURSE).where(_IS_IT).values(bound=bindparam("most"), warned=bindparam("told"))


@dataclass(frozen=True, slots=True)
class Payers:
    """Whose purses an attempt draws on: its tenant's and all above, from the root down, then its key's chain."""

    tenant_id: str
    path: tuple[str, ...]
    keys: tuple[str, ...]
    """From the topmost key that made another down to the one that submitted."""

    @property
    def owners(self) -> tuple[str, ...]:
        """All of them, in the order in which their purses are changed."""
        return (*self.path, *self.keys)


def payers(session: Session, tenant_id: str, key_id: str | None) -> Payers:
    """Who pays for a job of the tenant that was submitted with this key."""
    return Payers(tenant_id, tuple(tree(session, tenant_id)), key_chain(session, key_id))


def open_purse(session: Session, tenant_id: str, owner_id: str, unit: Unit, bound: int, period: str = TOTAL) -> None:
    """Give an owner a purse of `bound`; what was used before does not count in it, but for the month's own.

    Args:
        owner_id: the tenant itself, or a key of it.
        period: `TOTAL`, or `MONTHLY` for every calendar month (UTC) from this one on.

    Raises:
        Invalid: the bound is negative or too large to be counted.
    """
    _check(bound)
    lock_quotas(session, [tenant_id])
    before = ledger_sum(session, owner_id, unit, TOTAL) if period == TOTAL else 0
    _insert(session, tenant_id, owner_id, unit, period, bound, 0, before)
    if period == MONTHLY:
        open_month(session, tenant_id, owner_id, unit, budget.month_of(now_us(session)), bound)


def open_first(session: Session, tenant_id: str, owner_id: str, unit: Unit, bound: int) -> None:
    """Give a purse to an owner that was made in this transaction: nobody else knows of it, so nothing is locked.

    Raises:
        Invalid: the bound is negative or too large to be counted.
    """
    _check(bound)
    _insert(session, tenant_id, owner_id, unit, TOTAL, bound, 0, 0)


def set_bound(
    session: Session, tenant_id: str, owner_id: str, unit: Unit, bound: int | None, period: str = TOTAL
) -> None:
    """Set what an owner may use; None takes the purse away. A bound may be set below what is held and spent.

    Raises:
        Invalid: the bound is negative or too large to be counted.
    """
    lock_quotas(session, [tenant_id])
    found = {row.period: row for row in _rows(session, owner_id) if row.unit == unit}
    if bound is not None and period not in found:
        open_purse(session, tenant_id, owner_id, unit, bound, period)
        return
    if bound is not None:
        _check(bound)
    month = budget.month_of(now_us(session))
    for each, row in found.items():
        is_ruled = period == MONTHLY and (each == MONTHLY or month <= each < MONTHLY)
        if each != period and not is_ruled:
            continue
        if bound is None:
            _remove(session, row)
        else:
            told = budget.reached(row.spent, bound)
            _change(session, _REBOUND, row, most=bound, told=told)
            warn(session, row, row.spent, bound, min(row.warned, told))


def purses_of(session: Session, owner_id: str) -> list[PurseValue]:
    """What the owner may use, as it stands: totals, and this month's. Nothing of what has no bound."""
    month = budget.month_of(now_us(session))
    found = {(row.unit, row.period): row for row in _rows(session, owner_id)}
    shown = []
    for (unit, period), row in sorted(found.items()):
        if period == MONTHLY and (unit, month) not in found:  # nothing happened in this month yet
            shown.append(PurseValue(owner_id, Unit(unit), month, row.bound, 0, 0))
        elif period in (TOTAL, month):
            shown.append(as_purse(row))
    return shown


def totals_of(session: Session, owner_ids: Sequence[str]) -> dict[str, list[PurseValue]]:
    """By owner: the purses that last until they are topped up, in the order of their units."""
    found: dict[str, list[PurseValue]] = {}
    for row in session.connection().execute(
        _OF_OWNERS.order_by(_PURSE.c.unit), {"owners": owner_ids, "periods": [TOTAL]}
    ):
        if row.period == TOTAL:
            found.setdefault(row.owner_id, []).append(as_purse(row))
    return found


def warned_of(session: Session, owner_id: str) -> dict[Place, int]:
    """The highest threshold of which the owner was warned, of each purse."""
    return {(Unit(row.unit), row.period): row.warned for row in _rows(session, owner_id)}


def purses_at(session: Session, paying: Payers, places: Collection[Place], less: Mapping[Place, int]) -> list[Any]:
    """The payers' purses at these places, in the order in which they are changed; a month's is opened if it is due.

    Args:
        less: what the ledger already holds of this, and the caller is about to add.
    """
    periods = sorted({period for _, period in places})
    values = {"owners": paying.owners, "periods": periods}
    rows = session.connection().execute(_OF_OWNERS, values).all()
    found = {(row.owner_id, row.unit, row.period): row for row in rows}
    for rule in [row for row in rows if row.period == MONTHLY]:
        for unit, period in places:
            place = (rule.owner_id, unit.value, period)
            if unit == rule.unit and period != TOTAL and place not in found:
                opened = open_month(
                    session, rule.tenant_id, rule.owner_id, unit, period, rule.bound, less.get((unit, period), 0)
                )
                found[place] = opened
    order = {owner: number for number, owner in enumerate(paying.owners)}
    wanted = [row for row in found.values() if (Unit(row.unit), row.period) in places]
    return sorted(wanted, key=lambda row: (order[row.owner_id], row.unit, row.period))


def open_month(
    session: Session, tenant_id: str, owner_id: str, unit: Unit, month: str, bound: int, less: int = 0
) -> Any:
    """A month's purse, with what the ledger says was used in that month already."""
    spent = ledger_sum(session, owner_id, unit, month) - less
    _insert(session, tenant_id, owner_id, unit, month, bound, spent, 0)
    row = session.connection().execute(select(_PURSE).where(_IS_IT), _key(owner_id, unit, month)).one()
    warn(session, row, spent, bound, 0)
    return row


def change_spent(session: Session, row: Any, used: int, taken: int) -> None:
    """Count `used` as spent, `taken` of it from what was held; and warn, where a threshold is passed."""
    spent = row.spent + used
    told = max(row.warned, budget.reached(spent, row.bound))
    _change(session, _SPEND, row, used=used, taken=taken, told=told)
    warn(session, row, spent, row.bound, row.warned)


def adjust(session: Session, tenant_id: str, micro: int, at_us: int) -> None:
    """A credit (negative) or a debit was written to the tenant's ledger at this instant: count it in its purses."""
    lock_quotas(session, [tenant_id])
    places = {(Unit.MONEY, TOTAL): micro, (Unit.MONEY, budget.month_of(at_us)): micro}
    for row in purses_at(session, Payers(tenant_id, tuple(tree(session, tenant_id)), ()), places, places):
        change_spent(session, row, micro, 0)


def warn(session: Session, row: Any, spent: int, bound: int, warned: int) -> None:
    """Record each threshold that is reached, of which nobody was told."""
    for percent in budget.crossed(warned, spent, bound):
        record(
            session,
            "budget_warning",
            tenant_id=row.tenant_id,
            text=f"{percent} % of {purse_words.name_of(row.owner_id, Unit(row.unit), row.period, bound)} is spent",
            data={
                "percent": percent,
                "owner_id": row.owner_id,
                "unit": row.unit,
                "period": row.period,
                "bound": bound,
                "spent": spent,
            },
        )


def as_purse(row: Any) -> PurseValue:
    """The row as a value."""
    return PurseValue(row.owner_id, Unit(row.unit), row.period, row.bound, row.held, row.spent)


def _check(bound: int) -> None:
    if not 0 <= bound <= MOST:
        raise Invalid(f"a bound is from 0 to {MOST}")


def _rows(session: Session, owner_id: str) -> Sequence[Any]:
    return session.connection().execute(select(_PURSE).where(_PURSE.c.owner_id == owner_id)).all()


def _key(owner_id: str, unit: str, period: str) -> dict[str, object]:
    return {"of": owner_id, "which": str(unit), "during": period}


def _change(session: Session, statement: Any, row: Any, **values: int) -> None:
    session.connection().execute(statement, _key(row.owner_id, row.unit, row.period) | values)


def _insert(
    session: Session, tenant_id: str, owner_id: str, unit: Unit, period: str, bound: int, spent: int, before: int
) -> None:
    session.connection().execute(
        _OPEN,
        {
            "owner_id": owner_id,
            "unit": unit.value,
            "period": period,
            "tenant_id": tenant_id,
            "bound": bound,
            "held": 0,
            "spent": spent,
            "before": before,
            "warned": budget.reached(spent, bound),
        },
    )


def _remove(session: Session, row: Any) -> None:
    for table in (_HOLD, _PURSE):
        session.connection().execute(
            delete(table).where(
                table.c.owner_id == row.owner_id, table.c.unit == row.unit, table.c.period == row.period
            )
        )
