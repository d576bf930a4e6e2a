"""Who waits for a place takes turns with the others, whoever has many waiting."""

import asyncio

import pytest

from api.fairness import FairGate, turn_of


async def served_in_order(gate: FairGate, wanting: list[str]) -> list[str]:
    """Who got a place, in order, when all asked while it was taken."""
    order: list[str] = []

    async def want(whose: str) -> None:
        turn_of.set(whose)
        async with gate:
            order.append(whose)
            await asyncio.sleep(0)

    async with gate:
        tasks = [asyncio.create_task(want(whose)) for whose in wanting]
        for _ in range(3):
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    return order


def test_one_request_of_another_tenant_waits_for_one_and_not_for_a_hundred() -> None:
    order = asyncio.run(served_in_order(FairGate(1), ["loud"] * 100 + ["quiet"]))
    assert order.index("quiet") <= 1


def test_tenants_take_turns() -> None:
    order = asyncio.run(served_in_order(FairGate(1), ["a"] * 3 + ["b"] * 3 + ["c"]))
    assert order == ["a", "b", "c", "a", "b", "a", "b"]


def test_as_many_are_in_as_there_are_places() -> None:
    async def most() -> int:
        gate, inside, seen = FairGate(3), 0, 0

        async def want() -> None:
            nonlocal inside, seen
            async with gate:
                inside += 1
                seen = max(seen, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(want() for _ in range(20)))
        return seen

    assert asyncio.run(most()) == 3


@pytest.mark.parametrize("is_given", [False, True])
def test_who_gives_up_waiting_takes_no_place_with_it(is_given: bool) -> None:
    async def rounds() -> None:
        gate = FairGate(1)
        await gate.__aenter__()
        waiting = asyncio.create_task(gate.__aenter__())
        await asyncio.sleep(0)
        if is_given:
            await gate.__aexit__(None, None, None)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        if not is_given:
            await gate.__aexit__(None, None, None)
        async with asyncio.timeout(1), gate:
            pass

    asyncio.run(rounds())
