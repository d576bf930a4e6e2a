"""Why a job waits: each code with its sentence, made from numbers.

A tenant reads these. They tell its own quota and totals of the cluster, and nothing of another tenant: of a quota
above its own not even how much is left, which would be the others' use.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from domain.levels import Level
from domain.quota import Bound
from domain.scheduling.snapshot import ANY_MODEL, WHOLE_GPU, Demand, Reason

LATEST_SECONDS: Final = 253_402_300_799
"""The end of the year 9999, beyond which no date can be written."""
UNITS: Final = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def back_off(demand: Demand) -> Reason:
    """It is not to start yet. The text holds a time, not a rest of time, so that it stays true while it waits."""
    at = datetime.fromtimestamp(min(-(-demand.not_before // 1_000_000), LATEST_SECONDS), UTC)
    text = f"starts at {at:%Y-%m-%dT%H:%M:%SZ} at the earliest"
    return Reason("back_off", text, {"not_before_us": demand.not_before})


def not_before(demand: Demand) -> Reason:
    """It was asked to start later."""
    at = datetime.fromtimestamp(min(-(-demand.not_before // 1_000_000), LATEST_SECONDS), UTC)
    text = f"it was asked to start at {at:%Y-%m-%dT%H:%M:%SZ} at the earliest"
    return Reason("not_before", text, {"not_before_us": demand.not_before})


def waiting_for_jobs(left: int) -> Reason:
    """It starts after others."""
    text = f"waits for {left} other job{'s or arrays' if left > 1 else ' or array'} to end"
    return Reason("waiting_for_jobs", text, {"left": left})


def array_limit(most: int) -> Reason:
    """As many jobs of its array run as were asked to at once."""
    return Reason("array_limit", f"{most} jobs of its array run, the most that it asked for", {"limit": most})


def tenant_suspended(steps_up: int) -> Reason:
    """The tenant, or one above it, is suspended, or unknown."""
    whose = "the tenant is" if steps_up == 0 else "a tenant above it is"
    return Reason("tenant_suspended", f"{whose} suspended; an admin can resume it", {"steps_up": steps_up})


def image_blocked(why: str) -> Reason:
    """An admin has blocked the image."""
    return Reason("image_blocked", f"its image is blocked: {why}; an admin can unblock it", {})


def image_refused(refusals: Sequence[str]) -> Reason:
    """A node's image gate, or the check of its signature, has turned the image away."""
    text = f"its image was refused: {'; '.join(refusals)}; submit it with another, or ask an admin"
    return Reason("image_refused", text, {"refusals": len(refusals)})


def image_unchecked(trouble: str | None) -> Reason:
    """Nobody has checked the image's signature yet."""
    text = f"last trouble: {trouble}" if trouble else "a node that could run it checks it soon"
    return Reason("image_unchecked", f"the signature of its image has not been checked yet; {text}", {})


def quota_running(bound: Bound) -> Reason:
    """The tenant, or one above it, runs as many jobs as it may."""
    numbers = {"asked": 1, "steps_up": bound.steps_up}
    if bound.steps_up:
        return Reason("quota_running", "the quota of running jobs of a tenant above is used up", numbers)
    text = f"{bound.used} of the tenant's {bound.limit} running jobs; it starts when one of them ends"
    return Reason("quota_running", text, numbers | {"used": bound.used, "limit": bound.limit})


def quota_gpus(demand: Demand, bound: Bound) -> Reason:
    """The quota has no room for so many GPUs now, or never had."""
    asked = f"needs {_gpus(demand.gpus, demand.models)}"
    numbers = {"asked": demand.gpus, "steps_up": bound.steps_up}
    if bound.is_reserved:
        return _quota_borrowing(asked, numbers, bound)
    if bound.steps_up:
        return Reason("quota_gpus", f"{asked}; the quota of a tenant above has no room for them", numbers)
    numbers |= {"used_milli": bound.used, "limit_milli": bound.limit}
    if bound.limit < demand.gpus * WHOLE_GPU:
        help_ = "an admin can grant more"
    else:
        help_ = "it starts when enough of them are released"
    return Reason("quota_gpus", f"{asked}; {_in_use(bound)}; {help_}", numbers)


def _quota_borrowing(asked: str, numbers: dict[str, int], bound: Bound) -> Reason:
    """There is room, but it is kept for others. How much of it is theirs to know, where they are its siblings."""
    text = f"{asked}; what is left is guaranteed to others below a tenant above, who do not lend it"
    if bound.steps_up == 0:
        text = f"{asked}; {_in_use(bound)}, and {milli_text(bound.reserved)} are kept for those below it"
        numbers |= {"used_milli": bound.used, "limit_milli": bound.limit, "reserved_milli": bound.reserved}
    return Reason("quota_borrowing", f"{text}; it starts when enough are released", numbers)


def no_node(known: int) -> Reason:
    """No node is known, or none of those that could run it is ready."""
    if known == 0:
        return Reason("no_node", "the cluster has no node", {"known": 0, "ready": 0})
    nodes = "node that could run it is" if known == 1 else "nodes that could run it are"
    text = f"0 of {known} {nodes} ready; it starts when one is back"
    return Reason("no_node", text, {"known": known, "ready": 0})


def no_host_room(demand: Demand, most: Mapping[str, int]) -> Reason:
    """No node is large enough, even when empty."""
    text = f"needs {host_amounts(demand)} on one node; the largest that fits otherwise has {_most(demand, most)}"
    return Reason("no_node", text, _host_numbers(demand, most))


def no_level(demand: Demand, nodes: int) -> Reason:
    """No node offers a level that is strong enough, that the image runs at and that the tenant may use."""
    allowed = ", ".join(level for level in Level if level in demand.allowed_levels) or "none"
    text = (
        f"needs the isolation level {demand.least_level} or stronger for an image of kind {demand.image_kind}"
        f" (the tenant may use: {allowed}); 0 of {nodes} nodes offer one"
    )
    return Reason("no_level", text, {"nodes": nodes, "offering": 0})


def no_model(demand: Demand, total: int, most_on_one: int) -> Reason:
    """No node has enough devices of one accepted model, even when all are free."""
    text = f"needs {_gpus(demand.gpus, demand.models)} on one node; the cluster has {total}"
    text += f", {most_on_one} at most on one node" if total >= demand.gpus else ""
    return Reason("no_model", text, {"asked": demand.gpus, "total": total, "most_on_one": most_on_one})


def no_memory(demand: Demand, largest_bytes: int) -> Reason:
    """No node has enough devices with so much memory."""
    text = (
        f"needs {_gpus(demand.gpus, demand.models)} with at least {bytes_text(demand.gpu_memory_min_bytes)}"
        f" of memory each; the largest of that many on one node has {bytes_text(largest_bytes)}"
    )
    numbers = {"asked": demand.gpus, "asked_bytes": demand.gpu_memory_min_bytes, "largest_bytes": largest_bytes}
    return Reason("no_memory", text, numbers)


def no_driver(needed: tuple[int, int], newest: tuple[int, int] | None) -> Reason:
    """No driver is new enough for the image's CUDA."""
    has = f"the newest driver runs CUDA {newest[0]}.{newest[1]}" if newest else "no node that fits has an NVIDIA driver"
    major, minor = newest or (0, 0)
    numbers = {"asked_major": needed[0], "asked_minor": needed[1], "newest_major": major, "newest_minor": minor}
    return Reason("no_driver", f"the image needs CUDA {needed[0]}.{needed[1]}; {has}", numbers)


def no_device(
    demand: Demand,
    models: Sequence[str],
    barred: Sequence[str],
    *,
    free: int,
    total: int,
    most_on_one: int,
    quota: Bound | None,
) -> Reason:
    """Too few devices are free now, or not on one node. Counted are those on nodes that could run it."""
    text = f"needs {_gpus(demand.gpus, models if demand.models else ())}, {free} free of {total}"
    text += f", {most_on_one} at most on one node" if free >= demand.gpus else ""
    text += f"; no quota is left for {' or '.join(barred)}" if barred else ""
    numbers = {"asked": demand.gpus, "free": free, "total": total, "most_on_one": most_on_one}
    if quota is not None and quota.steps_up == 0:
        text += f"; {_in_use(quota)}"
        numbers |= {"used_milli": quota.used, "limit_milli": quota.limit}
    return Reason("no_device", text, numbers)


def no_room(demand: Demand, most: Mapping[str, int]) -> Reason:
    """Devices are free, or none is asked for, but beside them too little processor, memory or scratch."""
    where = "beside enough free GPUs" if demand.gpus else "on one node"
    text = f"needs {host_amounts(demand)}; the most that is free {where} is {_most(demand, most)}"
    return Reason("no_room", text, _host_numbers(demand, most))


def host_amounts(demand: Demand) -> str:
    """What is asked of the node itself."""
    return _host_text(demand.cpus_milli, demand.memory_bytes, demand.scratch_bytes)


def bytes_text(size: int) -> str:
    """A size in the largest unit that it reaches, with one decimal, rounded down, if it needs one."""
    for unit, unit_bytes in UNITS:
        if size >= unit_bytes:
            whole, tenths = divmod(size * 10 // unit_bytes, 10)
            return f"{whole}.{tenths} {unit}" if tenths else f"{whole} {unit}"
    return f"{size} bytes"


def milli_text(milli: int) -> str:
    """Thousandths as a decimal: 1500 is `1.5`."""
    whole, rest = divmod(abs(milli), 1000)
    text = f"{whole}.{rest:03d}".rstrip("0").rstrip(".")
    return f"-{text}" if milli < 0 else text


def _in_use(bound: Bound) -> str:
    """`3 of the tenant's 4 H100 in use`."""
    if bound.limit == 0:
        return f"the tenant's quota grants no {'GPU' if bound.row == ANY_MODEL else bound.row}"
    what = "GPUs" if bound.row == ANY_MODEL else bound.row
    return f"{milli_text(bound.used)} of the tenant's {milli_text(bound.limit)} {what} in use"


def _gpus(count: int, models: Sequence[str]) -> str:
    """`2 H100 or H200`, `1 GPU`, `3 GPUs`."""
    return f"{count} {' or '.join(models)}" if models else f"{count} GPU{'' if count == 1 else 's'}"


def _most(demand: Demand, most: Mapping[str, int]) -> str:
    """The most of each amount on a node, and whether it is only their not being together that is wrong."""
    text = _host_text(most["cpus_milli"], most["memory_bytes"], most["scratch_bytes"])
    asked = {
        "cpus_milli": demand.cpus_milli,
        "memory_bytes": demand.memory_bytes,
        "scratch_bytes": demand.scratch_bytes,
    }
    is_apart = all(most[what] >= amount for what, amount in asked.items())
    return f"{text}, but not all on the same one" if is_apart else text


def _host_text(cpus_milli: int, memory_bytes: int, scratch_bytes: int) -> str:
    """Amounts of a node in words."""
    cpus = f"{milli_text(cpus_milli)} CPU{'' if cpus_milli == 1000 else 's'}"
    return f"{cpus}, {bytes_text(memory_bytes)} of memory and {bytes_text(scratch_bytes)} of scratch"


def _host_numbers(demand: Demand, most: Mapping[str, int]) -> Mapping[str, int]:
    """What was asked of the node and the most that there is."""
    return {
        "asked_cpus_milli": demand.cpus_milli,
        "asked_memory_bytes": demand.memory_bytes,
        "asked_scratch_bytes": demand.scratch_bytes,
        "most_cpus_milli": most["cpus_milli"],
        "most_memory_bytes": most["memory_bytes"],
        "most_scratch_bytes": most["scratch_bytes"],
    }
