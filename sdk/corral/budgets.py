"""What may be spent and what is: what admins send and everyone reads. Money is in millionths of the currency."""

from typing import Literal

from corral.contract import Line, Request, View
from pydantic import Field

MICRO_MAX = 2**62


class BudgetSpec(Request):
    """What a tenant and those below it may spend, until it is topped up. What a month may cost is in the quota."""

    total_micro: int | None = Field(ge=0, le=MICRO_MAX)
    """None is no bound."""


class TopUp(Request):
    """More for the budget, or, below zero, less."""

    amount_micro: int = Field(ge=-MICRO_MAX, le=MICRO_MAX)
    reason: Line = ""


class PurseView(View):
    """What may be used of something: by the tenant and those below it, or with the key that asks."""

    owner_id: str
    unit: Literal["money_micro", "gpu_time", "gpus_milli"]
    """Millionths of the currency; microseconds of a GPU; thousandths of GPUs at once."""
    period: str
    """Empty for all time, `2026-01` for a calendar month, UTC."""
    bound: int
    held: int
    """The most that running jobs may still use."""
    spent: int
    """What the ledger says; below zero after a credit."""
    left: int
    """For jobs to come: the bound, less what is held and spent."""
    unposted: int
    """What running jobs have used since the ledger was written last, an hour ago at most: a part of `held`."""
    is_exhausted: bool
    warned_percent: int
    """The highest of 50, 80 and 100 that was passed, and told of by the event `budget_warning`."""
    spent_at_week: int | None
    """When it will be spent at the rate of the last seven days, in microseconds since the epoch; None: it lasts."""
    spent_at_running: int | None
    """The same at the rate of what runs now."""


class BurnDay(View):
    """What was used in a day, UTC."""

    day: str
    cost_micro: int
    gpu_us_milli: int
    gpu_hours: str
    left_micro: int | None
    """Of the budget as it is bounded today, at the end of the day; None without a budget."""


class BudgetView(View):
    """Where a tenant stands."""

    tenant_id: str
    as_of: int
    total_micro: int | None
    purses: list[PurseView]
    days: list[BurnDay]
    """The oldest first; today is the last."""
    running_micro_per_hour: int
    running_gpus_milli: int
