"""What a GPU-hour costs."""

from corral.accounts import PriceSpec, PriceView
from corral.contract import Page
from fastapi import APIRouter

from api.auth import AdminCaller
from api.paging import AskedPage
from api.transactions import Reading, Writing
from api.views.accounts import price_view
from store import images
from store.paging import Position

router = APIRouter(prefix="/prices", tags=["prices"])


@router.get("")
def list_prices(caller: AdminCaller, session: Reading, paging: AskedPage) -> Page[PriceView]:
    """All prices, by model."""
    rows = images.prices(session, paging.limit, paging.start_name)
    return paging.page(rows, price_view, lambda row: Position(0, row.model))


@router.put("")
def set_price(body: PriceSpec, caller: AdminCaller, session: Writing) -> PriceView:
    """Set the price of a model, for what is assigned from now on."""
    return price_view(images.set_price(session, body.model, body.micro_per_gpu_hour))
