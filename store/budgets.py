"""A tenant's budget: what an admin grants, and where it stands, day by day and to its end."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from domain import budget
from domain.calendar import Period
from domain.errors import Conflict, Invalid
from domain.forecast import DAY_US, HOUR_US, spent_at
from domain.ids import JobId, TenantId
from domain.purse import TOTAL, Purse, Unit
from store.accruals import Accrual, accruals
from store.clock import now_us
from store.events import record
from store.ledger_sums import ledger_sum_between
from store.locks import lock_quotas
from store.parking import let_go_payable
from store.purses import payers, purses_of, set_bound, warned_of
from store.tenants import below, tenant
from store.usage import Question, Sum, usage

WEEK_US = 7 * DAY_US
END_US = 2**62
"""After all lines: a node's clock may be a little ahead."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A purse, and when it will be spent."""

    purse: Purse
    warned: int
    """The highest threshold of which its owner was warned, in percent."""
    unposted: int
    """Used by what runs, and not yet in `spent`."""
    spent_at_week_us: int | None
    """At the mean rate of the last seven days; None if it lasts."""
    spent_at_running_us: int | None
    """If what runs now went on for ever."""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """Where a tenant stands."""

    tenant_id: str
    now: int
    total_micro: int | None
    """The budget; None without one."""
    standings: Sequence[Standing]
    days: Mapping[int, Sum]
    """By the day's number since the epoch, UTC: what was used."""
    running_micro_per_hour: int
    running_gpus_milli: int


def put_budget(session: Session, tenant_id: str, micro: int | None) -> list[JobId]:
    """Set what a tenant may spend from the day on which it was granted first; None takes the budget away.

    It may be set below what is spent.

    Returns:
        Jobs that a spent purse held, and that may start now.
    """
    owner = tenant(session, tenant_id).id
    set_bound(session, owner, owner, Unit.MONEY, micro)
    record(session, "budget_set", tenant_id=owner, data={"bound_micro": micro})
    return let_go_payable(session)


def top_up(session: Session, tenant_id: str, micro: int, reason: str) -> list[JobId]:
    """Add to the tenant's budget, or take from it.

    Returns:
        Jobs that a spent purse held, and that may start now.

    Raises:
        Conflict: it has no budget.
        Invalid: the budget would be below zero, or larger than can be counted.
    """
    owner = tenant(session, tenant_id).id
    lock_quotas(session, [owner])
    bound = _budget(session, owner)
    if bound is None:
        raise Conflict("the tenant has no budget", "set one first")
    if not 0 <= bound + micro <= budget.MOST:
        raise Invalid("the budget would be below zero, or larger than can be counted")
    set_bound(session, owner, owner, Unit.MONEY, bound + micro)
    data = {"amount_micro": micro, "bound_micro": bound + micro, "reason": reason}
    record(session, "budget_topped_up", tenant_id=owner, text=reason, data=data)
    return let_go_payable(session)


def state(session: Session, tenant_id: TenantId, key_id: str | None, days: int) -> BudgetState:
    """Where the tenant stands, and the key that asks, with the use of so many days up to today."""
    owner, now = tenant(session, tenant_id).id, now_us(session)
    tenants = below(session, tenant_id)
    running = accruals(session)
    own = [each for each in running if each.tenant_id in tenants]
    standings = _standings(session, owner, own, now)
    for key in payers(session, owner, key_id).keys:
        standings += _standings(session, key, _of_key(session, running, key), now)
    since = (now // DAY_US - days + 1) * DAY_US
    found = usage(session, Question(sorted(tenants), ["day"], since)).own
    used = {key[0].from_us // DAY_US: each for key, each in found.items() if isinstance(key[0], Period)}
    return BudgetState(
        tenant_id=owner,
        now=now,
        total_micro=_budget(session, owner),
        standings=standings,
        days={day: used.get(day, Sum()) for day in range(since // DAY_US, now // DAY_US + 1)},
        running_micro_per_hour=sum(each.rate_of(Unit.MONEY) for each in own),
        running_gpus_milli=sum(each.share_milli for each in own),
    )


def _budget(session: Session, owner_id: str) -> int | None:
    found = {(each.unit, each.period): each.bound for each in purses_of(session, owner_id)}
    return found.get((Unit.MONEY, TOTAL))


def _standings(session: Session, owner_id: str, running: Collection[Accrual], now: int) -> list[Standing]:
    warned = warned_of(session, owner_id)
    return [
        _standing(session, purse, running, now, warned.get((purse.unit, purse.period), 0))
        for purse in purses_of(session, owner_id)
    ]


def _standing(session: Session, purse: Purse, running: Collection[Accrual], now: int, warned: int) -> Standing:
    if purse.unit is Unit.GPUS_MILLI:
        return Standing(purse, 0, 0, None, None)
    unposted = sum(each.amount_of(purse.unit) for each in running)
    left = purse.bound - purse.spent - unposted
    week = ledger_sum_between(session, purse.owner_id, purse.unit, now - WEEK_US, END_US)
    an_hour = sum(each.rate_of(purse.unit) for each in running)
    return Standing(
        purse,
        warned,
        unposted,
        spent_at(now, left, week, WEEK_US, purse.period),
        spent_at(now, left, an_hour, HOUR_US, purse.period),
    )


def _of_key(session: Session, running: Collection[Accrual], key_id: str) -> list[Accrual]:
    return [each for each in running if key_id in payers(session, each.tenant_id, each.key_id).keys]
