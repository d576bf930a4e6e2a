"""Requests about prices, usage and the ledger."""

from corral.call import PAGE_LIMIT, Call, delete, get, place, put
from corral.contract import Page
from corral.prices import PriceSpec, PriceView


def prices(*, model: str | None = None) -> Call[Page[PriceView]]:
    """Every version of every price, the newest first (admin)."""
    return get(place("prices"), Page[PriceView], limit=PAGE_LIMIT, model=model)


def set_price(spec: PriceSpec) -> Call[PriceView]:
    """Set the price of a model, from now on or from a moment to come (admin)."""
    return put(place("prices"), PriceView, spec)


def take_back_price(price_id: str) -> Call[None]:
    """Take back a price that is not in force yet (admin)."""
    return delete(place("prices", price_id))
