"""Keys: who rules a tenant sees all of its keys; everybody else the own one, and those made from it."""

from collections.abc import Sequence

from corral.contract import Page
from corral.identity import KeySpec, KeyView, NewKey
from fastapi import APIRouter
from sqlmodel import Session
from starlette.responses import Response

from api.auth import ActiveCaller, TenantAdminCaller, TenantCaller
from api.key_specs import asked_rights, totals
from api.once import AskedOnce
from api.paging import AskedPage, Paging
from api.parts import AppScopes
from api.paths import KeyPath, TenantPath, TenantQuery
from api.transactions import Reading, Writing
from api.views.identity import key_view, new_key
from domain.ids import TenantId
from store import key_rows
from store.minting import mint_from
from store.paging import Position
from store.purses import purses_of, totals_of
from store.tables import ApiKey
from store.tenants import tenant

router = APIRouter(tags=["keys"])


@router.get("/keys")
def list_keys(
    caller: TenantCaller, session: Reading, paging: AskedPage, tenant_id: TenantQuery = None
) -> Page[KeyView]:
    """The keys, newest first, without their secrets."""
    owner = caller.narrowed(tenant_id)
    rows = key_rows.keys(session, owner, caller.family, paging.limit, paging.start)
    return _page(session, paging, rows)


@router.post("/keys", status_code=201, response_model=NewKey)
def make_key(
    body: KeySpec,
    caller: ActiveCaller,
    session: Writing,
    once: AskedOnce,
    scopes: AppScopes,
    tenant_id: TenantQuery = None,
) -> Response:
    """Make a key with at most the rights of this one: the caller's own, or a child of the caller's key.

    Its text is in this answer only: the same Idempotency-Key again is refused, not answered again.
    """
    asked = asked_rights(body, caller.narrowed(tenant_id), scopes)
    return once.create(
        session,
        body,
        lambda: _made(
            session,
            mint_from(session, caller.principal, body.name, asked, totals(body), is_child=body.is_child),
        ),
        is_secret=True,
    )


@router.delete("/keys/{key_id}", status_code=204)
def revoke_key(key_id: KeyPath, caller: ActiveCaller, session: Writing) -> None:
    """End a key, and all that were made from it, at once."""
    key_rows.revoke_key(session, caller.scope, key_id, family=caller.family)


@router.get("/tenants/{tenant_id}/keys")
def list_tenant_keys(
    tenant_id: TenantPath, caller: TenantAdminCaller, session: Reading, paging: AskedPage
) -> Page[KeyView]:
    """A tenant's keys, newest first, without their secrets."""
    owner = TenantId(tenant(session, tenant_id).id)
    rows = key_rows.keys(session, owner, None, paging.limit, paging.start)
    return _page(session, paging, rows)


@router.post("/tenants/{tenant_id}/keys", status_code=201, response_model=NewKey)
def make_tenant_key(
    tenant_id: TenantPath,
    body: KeySpec,
    caller: TenantAdminCaller,
    session: Writing,
    once: AskedOnce,
    scopes: AppScopes,
) -> Response:
    """Make a key of the tenant, which no person's leaving ends. Its text is in this answer only."""
    asked = asked_rights(body, TenantId(tenant(session, tenant_id).id), scopes)
    return once.create(
        session,
        body,
        lambda: _made(
            session,
            mint_from(
                session, caller.principal, body.name, asked, totals(body), is_child=body.is_child, of_tenant=True
            ),
        ),
        is_secret=True,
    )


@router.delete("/tenants/{tenant_id}/keys/{key_id}", status_code=204)
def revoke_tenant_key(tenant_id: TenantPath, key_id: KeyPath, caller: TenantAdminCaller, session: Writing) -> None:
    """End one of a tenant's keys, and all that were made from it, at once."""
    key_rows.revoke_key(session, caller.scope, key_id, of=TenantId(tenant_id))


def _page(session: Session, paging: Paging, rows: Sequence[ApiKey]) -> Page[KeyView]:
    found = totals_of(session, [row.id for row in rows])
    return paging.page(
        rows, lambda row: key_view(row, found.get(row.id, ())), lambda row: Position(row.created_us, row.id)
    )


def _made(session: Session, minted: tuple[ApiKey, str]) -> NewKey:
    return new_key(*minted, purses_of(session, minted[0].id))
