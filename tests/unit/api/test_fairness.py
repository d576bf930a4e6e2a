"""Who waits for a place takes turns with the others, whoever has many waiting."""

import asyncio

import pytest

from api.fairness import WAITING_MAX, FairGate, Turn, turn_of
from domain.errors import TooBusy


async def served_in_order(gate: FairGate, wanting: list[str]) -> list[str]:
    """Who got a place, in order, when all asked while it was taken."""
    order: list[str] = []

    async def want(whose: str) -> None:
        turn_of.set(whose)
        async with Turn(gate):
            order.append(whose)
            await asyncio.sleep(0)

    async with Turn(gate):
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
            async with Turn(gate):
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
        held = await gate.enter("a")
        waiting = asyncio.create_task(gate.enter("b"))
        await asyncio.sleep(0)
        if is_given:
            held.leave()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        held.leave()
        async with asyncio.timeout(1), Turn(gate):
            pass

    asyncio.run(rounds())


async def inside_of(gate: FairGate, wanting: str) -> list[str]:
    """Who is inside once all have asked."""
    inside: list[str] = []

    async def want(whose: str) -> None:
        await gate.enter(whose)
        inside.append(whose)

    tasks = [asyncio.create_task(want(whose)) for whose in wanting]
    for _ in range(3):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return inside


def test_a_tenant_by_itself_leaves_places_for_others() -> None:
    assert asyncio.run(inside_of(FairGate(8, 3), "aaaaaa")) == ["a"] * 3


def test_with_others_around_it_gets_fewer() -> None:
    assert asyncio.run(inside_of(FairGate(8, 3, 1), "baaaa")) == ["b", "a"]


def test_once_the_others_are_gone_it_gets_more_again() -> None:
    async def rounds() -> None:
        gate = FairGate(8, 2, 1)
        other = await gate.enter("b")
        await gate.enter("a")
        second = asyncio.create_task(gate.enter("a"))
        await asyncio.sleep(0)
        assert not second.done()
        other.leave()
        async with asyncio.timeout(1):
            await second

    asyncio.run(rounds())


def test_a_place_left_twice_is_one_place() -> None:
    async def rounds() -> None:
        gate = FairGate(1)
        first = await gate.enter("a")
        first.leave()
        first.leave()
        await gate.enter("a")
        waiting = asyncio.create_task(gate.enter("b"))
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()

    asyncio.run(rounds())


def test_who_has_too_many_waiting_is_refused_and_others_are_not() -> None:
    async def rounds() -> None:
        gate = FairGate(1)
        held = await gate.enter("a")
        waiting = [asyncio.create_task(gate.enter("a")) for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(TooBusy):
            await gate.enter("a")
        other = asyncio.create_task(gate.enter("b"))
        await asyncio.sleep(0)
        held.leave()
        (await waiting[0]).leave()
        async with asyncio.timeout(1):
            await other
        for task in waiting[1:]:
            task.cancel()

    asyncio.run(rounds())
