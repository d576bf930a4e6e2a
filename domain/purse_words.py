"""Purses in words and in people's units."""

from domain.purse import TOTAL, Unit

MICRO = 1_000_000
GPU_HOUR_US = 3_600_000_000
KEY = "key_"
"""How the id of a key begins."""
EXHAUSTED = tuple(
    f"{kind}_exhausted" for kind in ("budget", "hours", "month_money", "month_hours", "key_money", "key_hours")
)
"""Why a purse keeps a job from starting until there is more: held for that, it is not held by a person."""


def kind_of(owner_id: str, unit: Unit, period: str) -> str:
    """What codes begin with: `budget`, `hours`, `month_money`, `month_hours`, `key_money`, `key_hours`, `key_gpus`."""
    if owner_id.startswith(KEY):
        return KEY + {Unit.MONEY: "money", Unit.GPU_TIME: "hours", Unit.GPUS_MILLI: "gpus"}[unit]
    what = {Unit.MONEY: "money", Unit.GPU_TIME: "hours", Unit.GPUS_MILLI: "gpus"}[unit]
    if period != TOTAL:
        return f"month_{what}"
    return "budget" if unit is Unit.MONEY else what


def name_of(owner_id: str, unit: Unit, period: str, bound: int) -> str:
    """`the budget of 100.00`, `the 200 GPU-hours of 2026-01`, `the key's 4 GPUs`."""
    amount = amount_text(unit, bound)
    if owner_id.startswith(KEY):
        return f"the key's {amount}"
    if period != TOTAL:
        return f"the {amount} of {period}"
    return f"the budget of {amount}" if unit is Unit.MONEY else f"the {amount}"


def amount_text(unit: Unit, amount: int) -> str:
    """`12.50`, `3.5 GPU-hours`, `2 GPUs`; hours are cut after three decimals."""
    if unit is Unit.MONEY:
        return money_text(amount)
    if unit is Unit.GPU_TIME:
        return _counted(_thousandths(amount * 1000 // GPU_HOUR_US), "GPU-hour")
    return _counted(_thousandths(amount), "GPU")


def money_text(micro: int) -> str:
    """Millionths as a decimal with every digit, at least two after the point."""
    whole, rest = divmod(abs(micro), MICRO)
    decimals = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if micro < 0 else ''}{whole}.{decimals}"


def _thousandths(milli: int) -> str:
    whole, rest = divmod(abs(milli), 1000)
    text = f"{whole}.{rest:03d}".rstrip("0").rstrip(".")
    return f"-{text}" if milli < 0 else text


def _counted(number: str, what: str) -> str:
    return f"{number} {what}{'' if number == '1' else 's'}"
