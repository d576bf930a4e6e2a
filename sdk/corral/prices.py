"""Prices, each a version that holds from a moment on."""

from typing import Literal

from corral.contract import Request, View
from corral.jobs import ModelName, Priority
from pydantic import Field

RATE_MAX = 10_000


class Rates(Request):
    """What part of the price a job pays for each cause, per mille. The platform's own faults are always free."""

    preparing: int = Field(default=1000, ge=0, le=RATE_MAX)
    running: int = Field(default=1000, ge=0, le=RATE_MAX)
    stopping: int = Field(default=1000, ge=0, le=RATE_MAX)


class PriceSpec(Request):
    """The price of a GPU-hour of a model, in millionths of the currency; `*` for every model without its own."""

    model: ModelName | Literal["*"]
    micro_per_gpu_hour: int = Field(ge=0, le=10**12)
    priority: Priority | Literal["*"] = "*"
    """The class of jobs that it is for; `*` for every class without its own."""
    rates: Rates = Rates()
    valid_from: int | None = Field(default=None, ge=0, le=2**62)
    """Microseconds since the epoch, not before now; None is now. A job pays what is in force when it gets its GPUs."""


class RatesView(View):
    preparing: int
    running: int
    stopping: int
    platform_fault: int


class PriceView(View):
    id: str
    model: str
    priority: str
    valid_from: int
    micro_per_gpu_hour: int
    rates: RatesView
    state: Literal["in_force", "scheduled", "past"]
