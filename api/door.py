"""Who is let in, and when: before anything of a request is looked at that costs time, its tenant waits for its turn.

One process has one event loop and one interpreter's lock: what a flood of requests costs, all others wait for. So only
few are worked on at once, of each tenant one as long as others are here too, and the rest wait in line or are refused.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.bodies import is_upload
from api.fairness import FairGate, Place
from api.problems import answer
from api.rates import Rates
from domain.errors import CorralError, RateLimited

PLACES = 16
ALONE, TOGETHER = 2, 1
"""Of them, the most of one tenant: by itself, and beside others."""
PLACE_SECONDS = 0.25
"""Who takes longer waits for something else than for this process, and no longer counts."""
BESIDE = "/healthz"
"""Answered whatever else goes on."""
PLACE = "place"
"""Where a request's place is found in its state."""


class Door:
    """An ASGI layer: what comes in through it has its whole body with it, unless that is an upload."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._gate = FairGate(PLACES, ALONE, TOGETHER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request in its turn, or answer with a problem."""
        if scope["type"] != "http" or scope["path"] == BESIDE:
            await self._app(scope, receive, send)
            return
        rates: Rates = scope["app"].state.rates
        try:
            whose = await rates.meet(scope)
            place = await self._gate.enter(whose)
        except CorralError as refusal:
            await answer(refusal)(scope, receive, send)
            return
        scope["state"][PLACE] = place
        due = asyncio.get_running_loop().call_later(PLACE_SECONDS, place.leave)
        try:
            await _Visit(self._app, scope, receive, send, place, rates).serve()
        finally:
            due.cancel()
            place.leave()


class _Visit:
    """One request inside. Its place is free again when it begins to be answered, or waits for bytes of its sender."""

    def __init__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, place: Place, rates: Rates) -> None:
        self._app, self._scope, self._receive, self._send = app, scope, receive, send
        self._place, self._rates = place, rates
        self._is_upload = is_upload(scope)
        self._is_refused = False

    async def serve(self) -> None:
        await self._app(self._scope, self._take, self._tell)

    async def _take(self) -> Message:
        if self._is_upload:
            self._place.leave()
        return await self._receive()

    async def _tell(self, message: Message) -> None:
        """Pass an answer on; who shows no valid key once too often is told that instead."""
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            self._place.leave()
            if message["status"] == 401:
                try:
                    await self._rates.charge_failure(self._scope)
                except RateLimited as refusal:
                    self._is_refused = True
                    await answer(refusal)(self._scope, self._receive, self._send)
                    return
        await self._send(message)
