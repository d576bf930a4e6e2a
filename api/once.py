"""Creating once, however often it is asked for with the same Idempotency-Key.

An answer that holds a secret is not kept: asked for again, it is refused, and the refusal says what to do.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request
from pydantic import BaseModel
from sqlmodel import Session
from starlette.responses import Response

from api.audit import note_made, note_replay
from api.auth import TenantCaller
from api.callers import Caller
from store.idempotency import SECRET, Answer, Asked, earlier_answer, keep

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Once:
    """The creation that a request asks for."""

    caller: str
    key: str | None
    route: str

    def create(
        self, session: Session, body: BaseModel, make: Callable[[], BaseModel], *, is_secret: bool = False
    ) -> Response:
        """The answer to `body`: what `make` creates, or what the same request was answered before."""
        return self.create_for(session, digest_of(body), make, is_secret=is_secret)

    def create_for(
        self, session: Session, body_sha256: str, make: Callable[[], BaseModel], *, is_secret: bool = False
    ) -> Response:
        """The same, for a body of which only the hash is at hand."""
        if self.key is None:
            return Response(_made(session, make).model_dump_json(), 201, media_type=JSON)
        asked = Asked(self.caller, self.key, self.route, body_sha256)
        earlier = earlier_answer(session, asked)
        if earlier is not None:
            note_replay(session)
            return Response(earlier.body, earlier.status, {"Idempotent-Replay": "true"}, JSON)
        answer = Answer(201, _made(session, make).model_dump_json().encode())
        keep(session, asked, Answer(201, SECRET) if is_secret else answer)
        return Response(answer.body, answer.status, media_type=JSON)


def _made(session: Session, make: Callable[[], BaseModel]) -> BaseModel:
    made = make()
    note_made(session, str(getattr(made, "id", "")))
    return made


IdempotencyKey = Annotated[str | None, Header(pattern=r"^[\x21-\x7e]{1,200}$")]


async def _asked_once(request: Request, caller: TenantCaller, idempotency_key: IdempotencyKey = None) -> Once:
    return Once(caller.name, idempotency_key, route_of(request))


def route_of(request: Request) -> str:
    """What a request asks, but for its body."""
    return f"{request.method} {request.url.path} {sorted(request.query_params.multi_items())}"


def digest_of(body: BaseModel) -> str:
    """The hash by which two bodies are known to be the same."""
    return hashlib.sha256(body.model_dump_json().encode("utf-8", "surrogatepass")).hexdigest()


def asked_of(request: Request, caller: Caller, key: str | None, body: BaseModel) -> Asked | None:
    """The request, as far as it decides whether two are the same; None if it has no key."""
    return None if key is None else Asked(caller.name, key, route_of(request), digest_of(body))


AskedOnce = Annotated[Once, Depends(_asked_once)]
