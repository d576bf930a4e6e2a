"""What a GPU-hour costs, cost and will cost."""

from typing import Annotated

from corral.contract import Page
from corral.jobs import PRIORITIES
from corral.prices import PriceSpec, PriceView
from fastapi import APIRouter, Query
from sqlmodel import Session

from api.auth import AdminCaller
from api.paging import AskedPage
from api.paths import PricePath
from api.transactions import Reading, Writing
from api.views.prices import price_view
from store import prices
from store.clock import now_us
from store.paging import Position
from store.tables import Price

router = APIRouter(prefix="/prices", tags=["prices"])

ModelFilter = Annotated[str | None, Query(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")]


@router.get("")
def list_prices(caller: AdminCaller, session: Reading, paging: AskedPage, model: ModelFilter = None) -> Page[PriceView]:
    """Every version of every price, the newest first: those in force, those to come and those past."""
    rows = prices.prices(session, model, paging.limit, paging.start)
    now = now_us(session)
    in_force = prices.ids_in_force(session, now)
    return paging.page(rows, lambda row: price_view(row, in_force, now), _position)


@router.put("")
def set_price(body: PriceSpec, caller: AdminCaller, session: Writing) -> PriceView:
    """Set a price from now on, or from a moment to come. What has its GPUs already keeps the price of its start."""
    priority = prices.ANY_PRIORITY if body.priority == "*" else PRIORITIES.index(body.priority)
    rates = body.rates.model_dump()
    return _view(
        session,
        prices.set_price(session, body.model, body.micro_per_gpu_hour, priority, rates, body.valid_from),
    )


@router.delete("/{price_id}", status_code=204)
def take_back_price(price_id: PricePath, caller: AdminCaller, session: Writing) -> None:
    """Take back a price that is not in force yet."""
    prices.take_back_price(session, price_id)


def _position(row: Price) -> Position:
    return Position(row.valid_from_us, row.id)


def _view(session: Session, price: Price) -> PriceView:
    now = now_us(session)
    return price_view(price, prices.ids_in_force(session, now), now)
