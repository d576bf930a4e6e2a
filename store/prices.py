"""Prices: versions with a moment from which they hold, and the one in force."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, case, select
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col
from sqlmodel import select as select_rows

from domain.errors import Conflict, Invalid, NotFound
from domain.money import Cause, Rates
from store.base import table_of
from store.clock import now_us
from store.events import record
from store.ids import new_id
from store.paging import Position, after
from store.tables import Price

ANY_MODEL = "*"
ANY_PRIORITY = -1
_PRICE = table_of(Price)
_IN_FORCE = (
    select(_PRICE.c.micro_per_gpu_hour, _PRICE.c.rates)
    .where(
        _PRICE.c.model.in_([bindparam("model"), ANY_MODEL]),
        _PRICE.c.priority.in_([bindparam("priority"), ANY_PRIORITY]),
        _PRICE.c.valid_from_us <= bindparam("now"),
    )
    .order_by(case((_PRICE.c.model == ANY_MODEL, 1), else_=0), _PRICE.c.priority.desc(), _PRICE.c.valid_from_us.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class PriceInForce:
    """What a GPU-hour costs, in millionths of the currency, and what part of it each cause pays."""

    micro_per_gpu_hour: int
    rates: Mapping[str, int]
    """As they are stored: per mille, by the cause's name."""


FREE = PriceInForce(0, {})
"""Where nobody set a price."""


def price_of(session: Session, model: str, priority: int, now: int) -> PriceInForce:
    """The price at that moment. The model's own goes before that of all models; then the class's own before all's."""
    row = session.connection().execute(_IN_FORCE, {"model": model, "priority": priority, "now": now}).first()
    return FREE if row is None else PriceInForce(row.micro_per_gpu_hour, row.rates)


def rates_of(stored: Mapping[str, int] | None) -> Rates:
    """Rates as they were stored with an allocation."""
    return {Cause(name): rate for name, rate in (stored or {}).items()}


def set_price(
    session: Session,
    model: str,
    micro_per_gpu_hour: int,
    priority: int = ANY_PRIORITY,
    rates: Mapping[str, int] | None = None,
    valid_from_us: int | None = None,
) -> Price:
    """A new version, from that moment on, or from now; what is held already keeps the price of its assignment.

    Raises:
        Invalid: the moment has passed.
        Conflict: two versions would hold from the same moment, and the other one is in force.
    """
    now = now_us(session)
    start = now if valid_from_us is None else valid_from_us
    if start < now:
        raise Invalid("valid_from has passed", "a price may hold from now on, or from a moment to come")
    price = Price(
        id=new_id("prc"),
        model=model,
        priority=priority,
        valid_from_us=start,
        micro_per_gpu_hour=micro_per_gpu_hour,
        rates=dict(rates or {}),
        created_us=now,
    )
    try:
        with session.begin_nested():
            session.add(price)
    except IntegrityError:
        raise Conflict("a price holds from that very moment already", "take it back first, or choose another") from None
    record(session, "price_set", text=model, data={"micro_per_gpu_hour": micro_per_gpu_hour, "valid_from_us": start})
    return price


def take_back_price(session: Session, price_id: str) -> None:
    """Forget a price that is not in force yet.

    Raises:
        NotFound: there is no such price.
        Conflict: it is in force, or was: what was charged by it must stay explained.
    """
    price = session.get(Price, price_id, with_for_update=True)
    if price is None:
        raise NotFound("price")
    if price.valid_from_us <= now_us(session):
        raise Conflict("the price is in force, or was, and stays on record", "set another price from now on")
    session.delete(price)
    session.flush()
    record(session, "price_taken_back", text=price.model, data={"valid_from_us": price.valid_from_us})


def prices(session: Session, model: str | None, limit: int, start: Position | None) -> Sequence[Price]:
    """All versions, the newest first; one more than `limit` if there are."""
    query = select_rows(Price)
    if model is not None:
        query = query.where(col(Price.model) == model)
    if start is not None:
        query = query.where(after(start, col(Price.valid_from_us), col(Price.id)))
    return session.exec(query.order_by(col(Price.valid_from_us).desc(), col(Price.id).desc()).limit(limit + 1)).all()


def ids_in_force(session: Session, now: int) -> frozenset[str]:
    """The version that holds at that moment, of each model and class."""
    newest: dict[tuple[str, int], str] = {}
    rows = select(_PRICE.c.id, _PRICE.c.model, _PRICE.c.priority).where(_PRICE.c.valid_from_us <= now)
    for row in session.connection().execute(rows.order_by(_PRICE.c.valid_from_us)):
        newest[row.model, row.priority] = row.id
    return frozenset(newest.values())
