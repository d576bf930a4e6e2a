"""The key of a request that submits jobs. Whose it is may have been found out a few seconds ago.

Nothing is granted by what is remembered: in the transaction in which the jobs are queued, it is looked at again
whether all that decided then still stands (`store.key_witness`), so that a revoked key ends at once.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import BackgroundTasks, Depends, Request

from api.audit import Actor
from api.auth import KnownQuery, Token, active, find_caller, member
from api.callers import Caller
from api.fairness import Place
from api.rates import Rates
from api.transactions import AppDatabase
from store.key_witness import Witness, prefix_of, witnesses

REMEMBERED_SECONDS = 10.0
REMEMBERED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Seen:
    """Who showed a key for some purpose, and what decided that."""

    caller: Caller
    actor: Actor
    witness: Witness | None


class KeyMemory:
    """What was seen of keys a moment ago, by the hash of what was shown. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Seen]] = OrderedDict()

    def recall(self, place: bytes) -> Seen | None:
        """What was seen there, if that is not long ago."""
        found = self._known.get(place)
        return found[1] if found is not None and self._clock() - found[0] < REMEMBERED_SECONDS else None

    def remember(self, place: bytes, seen: Seen) -> None:
        """This is what is seen there now."""
        self._known[place] = (self._clock(), seen)
        self._known.move_to_end(place)
        while len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)


class ShownKey:
    """The key of one request."""

    def __init__(self, request: Request, token: str, database: AppDatabase, background: BackgroundTasks) -> None:
        self.prefix = prefix_of(token)
        self.seen: Seen
        self._request = request
        self._token = token
        self._database = database
        self._background = background
        self._memory: KeyMemory = request.app.state.key_memory
        shown = "\0".join((token, request.method, request.url.path, request.url.query))
        self._place = hashlib.sha256(shown.encode("utf-8", "surrogateescape")).digest()

    async def look(self) -> None:
        """Whose it is, or was a moment ago.

        Raises:
            CorralError: nobody's who may submit jobs.
        """
        known = self._memory.recall(self._place)
        if known is None:
            await self.look_again()
            return
        rates: Rates = self._request.app.state.rates
        await rates.charge(self._request, self._token, known.caller.key_id, known.caller.tenant_id)
        self.seen, self._request.state.actor = known, known.actor

    def leave_place(self) -> None:
        """The request now waits for others' work: let the next one in."""
        place: Place = self._request.state.place
        place.leave()

    async def look_again(self) -> None:
        """Whose it is now."""
        # the witness first: what changes between the two reads is then found out later
        found = await self._database.read(lambda session: witnesses(session, [self.prefix]))
        caller = await find_caller(self._request, self._token, None, self._database, self._background)
        await active(await member(caller))
        self.seen = Seen(caller, self._request.state.actor, found.get(self.prefix))
        self._memory.remember(self._place, self.seen)


async def shown_key(
    request: Request, token: Token, _: KnownQuery, database: AppDatabase, background: BackgroundTasks
) -> ShownKey:
    """The key, looked at."""
    shown = ShownKey(request, token, database, background)
    await shown.look()
    return shown


SubmittingKey = Annotated[ShownKey, Depends(shown_key)]
"""The key of an `ActiveCaller`."""
