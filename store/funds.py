"""The purses as the scheduler sees them."""

from sqlalchemy import or_, select
from sqlmodel import Session

from domain import budget
from domain.money import dearest_micro
from domain.purse import MONTHLY, TOTAL
from domain.scheduling.snapshot import Funds
from store.base import table_of
from store.clock import now_us
from store.key_chains import key_chains
from store.prices import ids_in_force, rates_of
from store.purses import as_purse
from store.tables import Price, Purse

_PURSE, _PRICE = table_of(Purse), table_of(Price)


def funds(session: Session, *, is_whole: bool = False) -> Funds:
    """All purses that something may still be held in, what a GPU-hour can cost, and which key was made by which.

    Without a purse nothing is asked for the rest, unless it is to be whole.
    """
    now = now_us(session)
    month = budget.month_of(now)
    query = select(_PURSE).where(
        or_(_PURSE.c.period.in_([TOTAL, MONTHLY]), (_PURSE.c.period >= month) & (_PURSE.c.period < MONTHLY))
    )
    purses = tuple(as_purse(row) for row in session.connection().execute(query))
    if not purses and not is_whole:
        return Funds()
    in_force = select(_PRICE).where(_PRICE.c.id.in_(ids_in_force(session, now)))
    prices = {
        (price.model, price.priority): dearest_micro(price.micro_per_gpu_hour, rates_of(price.rates))
        for price in session.connection().execute(in_force)
    }
    return Funds(purses, prices, key_chains(session))
