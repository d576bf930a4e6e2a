"""What is carried out together: of each tenant in turn, and no more than whoever has few waiting can bear."""

import asyncio
from collections.abc import Sequence

from api.gathering import TURNS_FOR_EACH, TURNS_MAX, Bounds, Gathering

BOUNDS = Bounds(group_weight=1000, tenant_weight=1000, total_weight=1000, total_bytes=1000)


def groups_of(wanting: str) -> list[str]:
    """Who was in each group, when all asked at once."""
    groups: list[str] = []

    async def carry_out(group: Sequence[str]) -> Sequence[None]:
        groups.append("".join(group))
        await asyncio.sleep(0)
        return [None] * len(group)

    async def asked() -> None:
        gathering: Gathering[str, None] = Gathering(carry_out, BOUNDS)
        await asyncio.gather(*(gathering.put(whose, whose) for whose in wanting))

    asyncio.run(asked())
    return groups


def test_one_tenants_orders_make_groups_that_end_soon() -> None:
    assert groups_of("a" * 40) == ["a" * TURNS_MAX, "a" * TURNS_MAX, "a" * (40 - 2 * TURNS_MAX)]


def test_who_sends_one_order_waits_for_few_of_another() -> None:
    assert groups_of("a" * 40 + "b")[0] == "ab" + "a" * (TURNS_FOR_EACH - 1)


def test_tenants_alike_share_a_large_group() -> None:
    assert groups_of("abc" * TURNS_MAX) == ["abc" * TURNS_MAX]
