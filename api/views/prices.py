"""Prices, as they are shown."""

from collections.abc import Set

from corral.jobs import PRIORITIES
from corral.prices import PriceView, RatesView

from domain.money import Cause, rate_milli
from store.prices import ANY_PRIORITY, rates_of
from store.tables import Price


def price_view(price: Price, in_force: Set[str], now: int) -> PriceView:
    """A version of a price; `in_force` holds the ids of those that hold now."""
    rates = rates_of(price.rates)
    state = "in_force" if price.id in in_force else "scheduled" if price.valid_from_us > now else "past"
    return PriceView.model_validate(
        {
            "id": price.id,
            "model": price.model,
            "priority": "*" if price.priority == ANY_PRIORITY else PRIORITIES[price.priority],
            "valid_from": price.valid_from_us,
            "micro_per_gpu_hour": price.micro_per_gpu_hour,
            "rates": RatesView.model_validate({cause.value: rate_milli(cause, rates) for cause in Cause}),
            "state": state,
        }
    )
