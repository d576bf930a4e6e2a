"""When what may be spent will be, at a steady rate: whole numbers in, an instant out."""

from domain import budget
from domain.purse import TOTAL

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
FARTHEST_US = 3650 * DAY_US
"""What would last for ten years lasts."""


def spent_at(now: int, left: int, amount: int, in_us: int, period: str = TOTAL) -> int | None:
    """When `left` is spent if `amount` is used in every `in_us`; now if nothing is left; None if it lasts.

    A month's purse lasts if its month ends before.
    """
    if left <= 0:
        return now
    if amount <= 0:
        return None
    after_us = -(-left * in_us // amount)
    if after_us > FARTHEST_US or (period != TOTAL and now + after_us >= budget.month_end(now)):
        return None
    return now + after_us
