"""Before anything of a request is looked at, it waits for its turn; a flood from one side keeps no other side out."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import FastAPI

from api.door import ALONE, Door
from api.fairness import WAITING_MAX
from api.metrics import Metrics
from api.rate_limits import RateLimits, Rule
from api.rates import Rates
from api.settings import ApiSettings

NOWHERE = "unix:///nonexistent/corral-test-redis.sock"
SETTINGS = ApiSettings(
    database_url="sqlite://", redis_url=NOWHERE, storage_url="memory://door", rate_failures="3/hour", rate_open=""
)
Message = MutableMapping[str, Any]


class House:
    """What lies behind the door: it notes who is inside, and answers when it is told to."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.answers: dict[str, list[int]] = {}
        self.goes_on = asyncio.Event()
        self.status = 200
        self.reads_more = False
        app = FastAPI()
        app.state.rates = Rates(RateLimits(NOWHERE, Metrics()), SETTINGS)
        self._app = app
        self.door = Door(self._serve)

    async def _serve(
        self, scope: Any, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        self.inside.append(scope["state"]["address"])
        if self.reads_more:
            await receive()
        await self.goes_on.wait()
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def ask(self, address: str, path: str = "/v1/jobs", method: str = "GET") -> "asyncio.Task[None]":
        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answers.setdefault(address, []).append(message["status"])

        state = {"address": address}
        scope = {"type": "http", "path": path, "method": method, "headers": [], "app": self._app, "state": state}
        return asyncio.create_task(self.door(scope, receive, send))  # type: ignore[arg-type]


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_flood_has_few_inside_and_another_comes_in_at_once() -> None:
    async def tried() -> None:
        house = House()
        flood = [house.ask("loud") for _ in range(100)]
        await settle()
        assert house.inside == ["loud"] * ALONE
        quiet = house.ask("quiet")
        await settle()
        assert house.inside == ["loud"] * ALONE + ["quiet"]
        house.goes_on.set()
        await asyncio.gather(*flood, quiet)
        assert house.answers == {"loud": [200] * 100, "quiet": [200]}

    asyncio.run(tried())


def test_beyond_a_bounded_line_it_is_refused() -> None:
    async def tried() -> None:
        house = House()
        flood = [house.ask("loud") for _ in range(ALONE + WAITING_MAX + 5)]
        await settle()
        assert house.answers["loud"] == [429] * 5
        house.goes_on.set()
        await asyncio.gather(*flood)

    asyncio.run(tried())


def test_whether_the_process_lives_is_told_without_a_turn() -> None:
    async def tried() -> None:
        house = House()
        flood = [house.ask("loud") for _ in range(10)]
        await settle()
        flood.append(house.ask("loud", "/healthz"))
        await settle()
        assert len(house.inside) == ALONE + 1
        house.goes_on.set()
        await asyncio.gather(*flood)

    asyncio.run(tried())


def test_who_waits_for_bytes_of_an_upload_keeps_nobody_out() -> None:
    async def tried() -> None:
        house = House()
        house.reads_more = True
        uploads = [house.ask("loud", "/v1/inputs", "POST") for _ in range(10)]
        await settle()
        assert len(house.inside) == 10
        house.goes_on.set()
        await asyncio.gather(*uploads)

    asyncio.run(tried())


def test_an_address_that_shows_no_valid_key_is_told_to_wait_in_the_end() -> None:
    async def tried() -> None:
        house = House()
        house.status = 401
        house.goes_on.set()
        for _ in range(5):
            await house.ask("stranger")
        assert house.answers["stranger"] == [401] * 3 + [429] * 2

    asyncio.run(tried())


def test_many_who_find_no_token_together_take_one_handful() -> None:
    async def tried() -> None:
        limits = RateLimits(NOWHERE, Metrics())
        rule = Rule.of("reads", "40/hour")
        assert len(await asyncio.gather(*(limits.take(rule, "loud") for _ in range(40)))) == 40

    asyncio.run(tried())
