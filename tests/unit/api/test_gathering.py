"""What waits is carried out together: in turns, within bounds, each with its own answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from api.gathering import TURNS_FOR_EACH, TURNS_MAX, Bounds, Gathering
from domain.errors import TooBusy

BOUNDS = Bounds(group_weight=1000, tenant_weight=1000, total_weight=1000, total_bytes=1000)
SMALL = Bounds(group_weight=4, tenant_weight=6, total_weight=10, total_bytes=1000)


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


class Database:
    """Carries groups out one step at a time, and remembers them."""

    def __init__(self, bounds: Bounds = SMALL) -> None:
        self.groups: list[list[str]] = []
        self.let_go = asyncio.Event()
        self.gathering: Gathering[str, str] = Gathering(self._carry_out, bounds)

    async def _carry_out(self, group: Sequence[str]) -> Sequence[str | Exception]:
        self.groups.append(list(group))
        await self.let_go.wait()
        if "breaks all" in group:
            raise ConnectionError
        return [ValueError(order) if "bad" in order else f"done {order}" for order in group]

    def put(self, tenant_id: str, order: str, weight: int = 1, **rest: object) -> asyncio.Task[str]:
        """An order on its way."""
        return asyncio.create_task(self.gathering.put(tenant_id, order, weight=weight, **rest))  # type: ignore[arg-type]


async def settled() -> None:
    """Let everything that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_heavy_order_is_a_group_of_its_own() -> None:
    async def orders() -> list[list[str]]:
        database = Database()
        tasks = [database.put("a", "light"), database.put("b", "heavy", weight=9)]
        database.let_go.set()
        await asyncio.gather(*tasks)
        return database.groups

    assert asyncio.run(orders()) == [["light"], ["heavy"]]


def test_orders_that_must_not_meet_are_carried_out_one_after_the_other() -> None:
    async def orders() -> list[list[str]]:
        database = Database()
        tasks = [database.put("a", "first", alone="same"), database.put("a", "again", alone="same")]
        database.let_go.set()
        await asyncio.gather(*tasks)
        return database.groups

    assert asyncio.run(orders()) == [["first"], ["again"]]


@pytest.mark.parametrize(
    ("tenant_id", "weight", "size_bytes"), [("a", 2, 1), ("b", 6, 1), ("b", 1, 1000)], ids=["own", "all", "bytes"]
)
def test_what_is_too_much_is_refused_and_takes_no_room(tenant_id: str, weight: int, size_bytes: int) -> None:
    async def refused() -> None:
        database = Database()
        started = database.put("z", "runs")
        await settled()
        waiting = database.put("a", "waits", weight=5, size_bytes=1)
        await settled()
        with pytest.raises(TooBusy):
            await database.put(tenant_id, "too much", weight=weight, size_bytes=size_bytes)
        fits = database.put("b", "fits", weight=1, size_bytes=1)
        database.let_go.set()
        assert await asyncio.gather(started, waiting, fits) == ["done runs", "done waits", "done fits"]

    asyncio.run(refused())


def test_each_of_a_group_gets_its_own_answer_or_error() -> None:
    async def answers() -> list[str | BaseException]:
        database = Database()
        tasks = [database.put("a", "good"), database.put("b", "bad"), database.put("c", "fine")]
        database.let_go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    good, bad, fine = asyncio.run(answers())
    assert (good, fine) == ("done good", "done fine")
    assert isinstance(bad, ValueError)


def test_a_group_that_fails_as_a_whole_ends_nothing_but_itself() -> None:
    async def answers() -> None:
        database = Database()
        database.let_go.set()
        with pytest.raises(ConnectionError):
            await database.put("a", "breaks all")
        assert await database.put("a", "next") == "done next"

    asyncio.run(answers())


def test_who_gives_up_takes_nothing_back_and_disturbs_nobody() -> None:
    async def groups() -> list[list[str]]:
        database = Database()
        gone, stays = database.put("a", "gone"), database.put("a", "stays")
        await settled()
        gone.cancel()
        await settled()
        database.let_go.set()
        assert await stays == "done stays"
        await database.gathering.finish()
        return database.groups

    assert asyncio.run(groups()) == [["gone", "stays"]]


def test_groups_that_run_at_once_have_no_tenant_in_common() -> None:
    async def groups() -> list[list[str]]:
        database = Database(replace(SMALL, groups=2))
        tasks = []
        for order in ("a1", "b1", "a2", "c1"):
            tasks.append(database.put(order[0], order))
            await settled()
        at_once = [list(group) for group in database.groups]
        database.let_go.set()
        await asyncio.gather(*tasks)
        await database.gathering.finish()
        return at_once

    assert asyncio.run(groups()) == [["a1"], ["b1"]]


def test_at_the_end_all_that_waits_is_carried_out() -> None:
    async def unfinished() -> int:
        database = Database(replace(SMALL, groups=2))
        tasks = [database.put(tenant_id, tenant_id) for tenant_id in "abcde"]
        await settled()
        database.let_go.set()
        await database.gathering.finish()
        await settled()
        return sum(not task.done() for task in tasks)

    assert asyncio.run(unfinished()) == 0


def test_an_order_that_comes_when_the_one_before_is_answered_is_carried_out() -> None:
    async def both() -> str:
        database = Database()
        database.let_go.set()

        async def one_after_the_other() -> str:
            await database.gathering.put("a", "first")
            return await database.gathering.put("a", "second")

        async with asyncio.timeout(5):
            return (await asyncio.gather(one_after_the_other(), one_after_the_other()))[0]

    assert asyncio.run(both()) == "done second"
