"""Logging in through the provider that the operator configured. Open to all; what it gives is a key like any other.

A browser that comes by itself is answered with the key. A program (`corral login --sso`) sends the S256 of something it
keeps: then the person is shown a code, which only that program can trade for the key.
"""

import secrets
from typing import Annotated

from corral.identity import LoginCode, NewKey
from fastapi import APIRouter, Cookie, Depends, Query, Request
from sqlmodel import Session
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from api.audit import Actor, note_made
from api.oidc import CALLBACK, Provider
from api.query import known_query
from api.rates import by_address
from api.settings import ApiSettings
from api.transactions import AppDatabase, Writes
from api.views.identity import new_key
from domain.errors import Conflict, LoginOver, LoginRefused
from domain.ids import MemberId, TenantId
from store import logins
from store.people import place_of
from store.tables import ApiKey

router = APIRouter(prefix="/login", tags=["login"], dependencies=[Depends(by_address)])

COOKIE = "corral_login"
COOKIE_SECONDS = 600
NO_STORE = {"Cache-Control": "no-store"}
Text = Annotated[str | None, Query(max_length=4096)]


@router.get("", response_class=Response, status_code=302)
async def login(
    request: Request,
    database: AppDatabase,
    tenant: Annotated[str | None, Query(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")] = None,
    challenge: Annotated[str | None, Query(pattern=r"^[A-Za-z0-9_-]{43}$")] = None,
) -> Response:
    """Go to the provider."""
    await known_query(request)
    provider = await _provider(request)
    state, browser, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
    target = await provider.way_in(state, nonce, verifier)
    await database.write(lambda session: logins.begin(session, state, browser, nonce, verifier, tenant, challenge))
    answer = RedirectResponse(target, 302, NO_STORE)
    is_encrypted = provider.callback_url.startswith("https:")
    answer.set_cookie(
        COOKIE, browser, COOKIE_SECONDS, path=CALLBACK, secure=is_encrypted, httponly=True, samesite="lax"
    )
    return answer


@router.get("/callback", response_class=Response)
async def callback(
    request: Request,
    database: AppDatabase,
    writes: Writes,
    state: Text = None,
    code: Text = None,
    error: Text = None,
    corral_login: Annotated[str | None, Cookie(max_length=100)] = None,
) -> Response:
    """Come back from the provider: answered with a key, or with a code for the program that began this."""
    provider = await _provider(request)
    if state is None or corral_login is None:
        raise LoginOver
    begun = await database.write(lambda session: logins.take(session, state, corral_login))
    if code is None or error is not None:
        raise LoginRefused("the provider did not let you in")
    vouched = await provider.vouched(code, begun.verifier, begun.nonce)

    def settle(session: Session) -> Response:
        place = place_of(session, vouched.person, vouched.grants, begun.tenant)
        if begun.challenge is None:
            key, text = logins.session_key(session, MemberId(place.id), _session_us(request))
            _note(session, request, key)
            return Response(new_key(key, text, ()).model_dump_json(), 200, NO_STORE, "application/json")
        shown = secrets.token_urlsafe(16)
        logins.give_code(session, begun.id, place.id, shown)
        tenant_id = None if place.tenant_id is None else TenantId(place.tenant_id)
        request.state.actor = Actor(place.id, place.role, tenant_id, place.id, is_staff=tenant_id is None)
        return PlainTextResponse(f"{shown}\n\nCopy this code to the terminal that waits for it.\n", 200, NO_STORE)

    answer = await writes.write(settle)
    answer.delete_cookie(COOKIE, path=CALLBACK)
    return answer


@router.post("/token", response_model=NewKey)
async def token(request: Request, body: LoginCode, writes: Writes) -> Response:
    """Trade the code that the person was shown for the key of the login, with what the program kept."""
    await _provider(request)

    def trade(session: Session) -> NewKey:
        key, text = logins.trade(session, body.code, body.verifier, _session_us(request))
        _note(session, request, key)
        return new_key(key, text, ())

    made = await writes.write(trade)
    return Response(made.model_dump_json(), 200, NO_STORE, "application/json")


async def _provider(request: Request) -> Provider:
    """Each use counts among what its address may do without a key."""
    await request.app.state.rates.charge_address(request)
    found: Provider | None = request.app.state.provider
    if found is None:
        raise Conflict("this server has no provider for logins", "use a key; an operator sets CORRAL_OIDC_ISSUER")
    return found


def _session_us(request: Request) -> int:
    settings: ApiSettings = request.app.state.settings
    return settings.oidc.session_seconds * 1_000_000


def _note(session: Session, request: Request, key: ApiKey) -> None:
    tenant_id = None if key.tenant_id is None else TenantId(key.tenant_id)
    request.state.actor = Actor(key.id, key.role, tenant_id, key.member_id, is_staff=tenant_id is None)
    note_made(session, key.id)
