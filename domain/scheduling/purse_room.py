"""What the purses leave to a job: the most that it can use must be left in every purse of its tenant, of all tenants
above, and of the key that submitted it and those that this one was made with."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from domain import budget
from domain.ids import Instant, TenantId
from domain.purse import MONTHLY, TOTAL, Place, Purse
from domain.scheduling import purse_reasons
from domain.scheduling.snapshot import ANY_CLASS, ANY_MODEL, Demand, Funds, Reason, TenantShare

Spot = tuple[str, str, str]
"""Owner, unit and period."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A purse that has less left than a job can use."""

    purse: Purse
    asked: int
    steps_up: int
    """0 for the tenant's own and for keys, 1 for its parent's, and so on."""


class PurseRoom:
    """The purses as they shrink during a pass."""

    def __init__(self, funds: Funds, tenants: Mapping[TenantId, TenantShare], now: Instant) -> None:
        self._funds = funds
        self._tenants = tenants
        self._now = now
        self._purses: dict[Spot, Purse] = {(each.owner_id, each.unit, each.period): each for each in funds.purses}
        self._with_purses = {each.owner_id for each in funds.purses}
        self._amounts: dict[tuple[int, int, int], Mapping[Place, int]] = {}

    def kind_of(self, demand: Demand) -> Hashable:
        """What makes two jobs of a tenant, of one shape, equal here; None if no purse bounds them."""
        if not demand.gpus or not self._owners(demand):
            return None
        return (demand.key_id, demand.longest_us, demand.priority)

    def affordable(self, demand: Demand, models: tuple[str, ...]) -> tuple[str, ...] | Reason:
        """Those of `models` that the purses can pay now, in their order; the reason if there is none."""
        owners = self._owners(demand) if demand.gpus else ()
        if not owners or not models:
            return models
        shortages = {model: self._shortage(demand, model, owners) for model in models}
        payable = tuple(model for model, short in shortages.items() if short is None)
        least = min((short for short in shortages.values() if short is not None), key=_excess, default=None)
        return payable if payable or least is None else purse_reasons.of(least.purse, least.asked, least.steps_up)

    def charge(self, demand: Demand, model: str | None) -> None:
        """Hold in its purses what the job can use on devices of this model."""
        for owner, _ in self._owners(demand) if model is not None else ():
            for place, amount in self._most(demand, model or "").items():
                if (purse := self._purse(owner, place)) is not None:
                    held = replace(purse, held=purse.held + amount)
                    self._purses[owner, place[0], place[1]] = held

    def _owners(self, demand: Demand) -> Sequence[tuple[str, int]]:
        """Who has purses and pays for the job, and how many steps above its tenant."""
        if not self._with_purses:
            return ()
        found: list[tuple[str, int]] = []
        step, steps_up = self._tenants.get(demand.tenant_id), 0
        while step is not None:
            found.append((step.tenant_id, steps_up))
            step, steps_up = self._tenants.get(step.parent_id or TenantId("")), steps_up + 1
        if demand.key_id is not None:
            found += [(each, 0) for each in self._funds.key_chains.get(demand.key_id, (demand.key_id,))]
        return [each for each in found if each[0] in self._with_purses]

    def _shortage(self, demand: Demand, model: str, owners: Sequence[tuple[str, int]]) -> Shortage | None:
        """The first purse that is spent, or else the first that is short, the tenant's own before those above."""
        short = None
        for owner, steps_up in owners:
            for place, amount in self._most(demand, model).items():
                purse = self._purse(owner, place)
                if purse is None or amount <= purse.left:
                    continue
                found = Shortage(purse, amount, steps_up)
                if purse.is_exhausted:
                    return found
                short = short or found
        return short

    def _most(self, demand: Demand, model: str) -> Mapping[Place, int]:
        price = self._price(model, demand.priority)
        asked = (demand.gpus, demand.longest_us, price)
        if asked not in self._amounts:
            self._amounts[asked] = budget.most([price] * demand.gpus, self._now, demand.longest_us)
        return self._amounts[asked]

    def _price(self, model: str, priority: int) -> int:
        prices = self._funds.dearest_micro
        rows = [(row, rank) for row in (model, ANY_MODEL) for rank in (priority, ANY_CLASS)]
        return next((prices[each] for each in rows if each in prices), 0)

    def _purse(self, owner: str, place: Place) -> Purse | None:
        unit, period = place
        found = self._purses.get((owner, unit, period))
        if found is None and period != TOTAL:
            rule = self._purses.get((owner, unit, MONTHLY))
            return None if rule is None else replace(rule, period=period)
        return found


def _excess(short: Shortage) -> tuple[bool, int]:
    """A purse that only lacks room now is nearer than a spent one; then, by how much is lacking."""
    return (short.purse.is_exhausted, short.asked - short.purse.left)
