"""What the ledger adds up to, by whatever is asked for, in whole numbers."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, false, func, or_
from sqlalchemy import select as select_columns
from sqlmodel import Session, col, select

from domain.ids import TenantId
from store.tables import LedgerEntry

DAY_US = 86_400_000_000
Group = Literal["tenant", "model", "job", "day", "cause"]
_COLUMNS: dict[Group, Any] = {
    "tenant": col(LedgerEntry.tenant_id),
    "model": col(LedgerEntry.model),
    "job": col(LedgerEntry.job_id),
    "cause": col(LedgerEntry.cause),
}
_DAY = col(LedgerEntry.from_us) // DAY_US


@dataclass(slots=True)
class Sum:
    """Use, added up."""

    gpu_us_milli: int = 0
    cost_micro: int = 0
    entries: int = 0


Key = tuple[str | int, ...]
"""A value for each group asked for, in their order; a day as its number since the epoch, UTC."""


def usage(
    session: Session, scope: Sequence[TenantId] | None, groups: Sequence[Group], since: int | None, until: int | None
) -> dict[Key, Sum]:
    """The ledger's sums, from `since` on and before `until`.

    An entry that crosses one of the two, or a midnight that divides groups, is cut there: its parts add up to it.
    """
    sums: dict[Key, Sum] = defaultdict(Sum)
    crossing = _crossing("day" in groups, since, until)
    within = _within(scope, since, until)
    keys = [_DAY if group == "day" else _COLUMNS[group] for group in groups]
    whole = session.execute(
        select_columns(
            *keys,
            col(LedgerEntry.share_milli),
            func.sum(LedgerEntry.duration_us),
            func.sum(LedgerEntry.cost_micro),
            func.count(),
        )
        .where(*within, ~crossing)
        .group_by(*keys, col(LedgerEntry.share_milli))
    )
    for row in whole:
        share_milli, duration_us, cost_micro, entries = row[len(groups) :]
        _add(sums[tuple(row[: len(groups)])], int(duration_us) * share_milli, int(cost_micro), entries)
    for entry in session.exec(select(LedgerEntry).where(*within, crossing)):
        for day, duration_us, cost_micro in _cut(entry, "day" in groups, since, until):
            key = tuple(day if group == "day" else _value(entry, group) for group in groups)
            _add(sums[key], duration_us * entry.share_milli, cost_micro, 1)
    return dict(sums)


def _within(scope: Sequence[TenantId] | None, since: int | None, until: int | None) -> list[ColumnElement[bool]]:
    """Entries that lie in the window with some of their time; an entry of no length, with its instant."""
    conditions: list[Any] = []
    if scope is not None:
        conditions.append(col(LedgerEntry.tenant_id).in_(scope))
    if since is not None:
        conditions.append(or_(col(LedgerEntry.until_us) > since, col(LedgerEntry.from_us) >= since))
    if until is not None:
        conditions.append(col(LedgerEntry.from_us) < until)
    return conditions


def _crossing(by_day: bool, since: int | None, until: int | None) -> ColumnElement[bool]:
    starts, ends = col(LedgerEntry.from_us), col(LedgerEntry.until_us)
    conditions: list[Any] = [false()]
    if since is not None:
        conditions.append(and_(starts < since, ends > since))
    if until is not None:
        conditions.append(and_(starts < until, ends > until))
    if by_day:
        conditions.append(and_(ends > starts, starts // DAY_US != (ends - 1) // DAY_US))
    return or_(*conditions)


def _cut(entry: LedgerEntry, by_day: bool, since: int | None, until: int | None) -> Iterator[tuple[int, int, int]]:
    """(day, duration, cost) of each part inside the window. Each is a difference of wholes, so that none is lost."""
    span = entry.until_us - entry.from_us
    begin = entry.from_us if since is None else max(entry.from_us, since)
    end = entry.until_us if until is None else min(entry.until_us, until)
    while begin < end:
        day = begin // DAY_US
        stop = min(end, (day + 1) * DAY_US) if by_day else end
        shares = [
            total * (stop - entry.from_us) // span - total * (begin - entry.from_us) // span
            for total in (entry.duration_us, entry.cost_micro)
        ]
        yield day, shares[0], shares[1]
        begin = stop


def _value(entry: LedgerEntry, group: Group) -> str:
    values: dict[str, Any] = {
        "tenant": entry.tenant_id,
        "model": entry.model,
        "job": entry.job_id,
        "cause": entry.cause,
    }
    return str(values[group])


def _add(to: Sum, gpu_us_milli: int, cost_micro: int, entries: int) -> None:
    to.gpu_us_milli += gpu_us_milli
    to.cost_micro += cost_micro
    to.entries += entries
