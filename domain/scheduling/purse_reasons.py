"""Why a job waits for a purse: numbers in people's units, and nothing of what a tenant above has."""

from domain.purse import TOTAL, Purse, Unit
from domain.purse_words import KEY, amount_text, kind_of, name_of
from domain.scheduling.snapshot import Reason


def of(purse: Purse, asked: int, steps_up: int) -> Reason:
    """It is spent, or has too little left for what the job can use."""
    return spent(purse, steps_up) if purse.is_exhausted else short(purse, asked, steps_up)


def spent(purse: Purse, steps_up: int) -> Reason:
    """All of it is spent: the job is held until there is more."""
    name = _name(purse, steps_up)
    text = f"{name} {'is' if _is_budget(purse) else 'are'} spent; {_release(purse)}"
    return Reason(f"{kind_of(purse.owner_id, purse.unit, purse.period)}_exhausted", text, _numbers(purse, steps_up))


def short(purse: Purse, asked: int, steps_up: int) -> Reason:
    """The job could use more than is left."""
    amount = amount_text(purse.unit, asked)
    verb = "takes" if purse.unit is Unit.GPUS_MILLI else "could use up to"
    text = f"{verb} {amount}; {_left(purse, steps_up)}; {_help(purse, asked, steps_up)}"
    code = f"{kind_of(purse.owner_id, purse.unit, purse.period)}_short"
    return Reason(code, text, {"asked": asked, **_numbers(purse, steps_up)})


def _left(purse: Purse, steps_up: int) -> str:
    if steps_up:
        return f"{_name(purse, steps_up)} {'has' if _is_budget(purse) else 'have'} no room left for that"
    left = amount_text(purse.unit, max(0, purse.left))
    held = f" ({amount_text(purse.unit, purse.held)} held for running jobs)" if purse.held else ""
    return f"{left} of {_name(purse, steps_up)} left{held}"


def _help(purse: Purse, asked: int, steps_up: int) -> str:
    if steps_up or asked <= purse.bound - purse.spent:
        return "it starts when enough of it is let go"
    if purse.unit is Unit.GPUS_MILLI:
        return "fewer GPUs, or another key, would help"
    return f"a shorter time limit would help, or: {_release(purse)}"


def _release(purse: Purse) -> str:
    if purse.owner_id.startswith(KEY):
        return "whoever made the key can raise it"
    if purse.period != TOTAL:
        return "it goes on with the next month, or when an admin grants more"
    return "a top-up by an admin releases it"


def _name(purse: Purse, steps_up: int) -> str:
    if not steps_up:
        return name_of(purse.owner_id, purse.unit, purse.period, purse.bound)
    what = {Unit.MONEY: "money", Unit.GPU_TIME: "GPU-hours", Unit.GPUS_MILLI: "GPUs"}[purse.unit]
    of_what = "the budget" if _is_budget(purse) else f"the {what}{f' of {purse.period}' if purse.period else ''}"
    return f"{of_what} of a tenant above"


def _is_budget(purse: Purse) -> bool:
    """Whether it is spoken of as one thing."""
    return purse.unit is Unit.MONEY


def _numbers(purse: Purse, steps_up: int) -> dict[str, int]:
    if steps_up:
        return {"steps_up": steps_up}
    return {"steps_up": 0, "bound": purse.bound, "held": purse.held, "spent": purse.spent}
