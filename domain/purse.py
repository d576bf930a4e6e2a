"""What may be spent of something: the values."""

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """What a purse counts."""

    GPUS_MILLI = "gpus_milli"
    """Thousandths of GPUs held at once: never spent."""
    GPU_TIME = "gpu_time"
    """Microseconds of a whole GPU that were charged. (In thousandths of these, 64 bits would end at 2.5 million
    GPU-hours, which a large cluster uses in a month.)"""
    MONEY = "money_micro"
    """Millionths of the currency."""


TOTAL = ""
"""The period of a purse that lasts until it is topped up."""
MONTHLY = "monthly"
"""The period of the rule from which the purse of each calendar month takes its bound. It is itself never used."""

Place = tuple[Unit, str]
"""A purse of an owner: what it counts, and its period."""


@dataclass(frozen=True, slots=True)
class Purse:
    """A purse as it stands."""

    owner_id: str
    unit: Unit
    period: str
    bound: int
    held: int
    spent: int
    """Below zero after a credit for what was spent elsewhere: before the purse was opened, say."""

    @property
    def left(self) -> int:
        """What may still be held. Negative where the bound was lowered, or where more was spent than was held."""
        return self.bound - self.held - self.spent

    @property
    def is_exhausted(self) -> bool:
        """Whether all of it is spent, however the attempts that hold in it end."""
        return self.unit is not Unit.GPUS_MILLI and self.spent >= self.bound
