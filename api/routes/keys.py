"""The caller itself, and the keys of its tenant (an admin's: of the platform's admins)."""

from corral.accounts import KeySpec, KeyView, NewKey, Whoami
from corral.contract import Page
from fastapi import APIRouter
from starlette.responses import Response

from api.auth import ActiveCaller, TenantCaller
from api.once import AskedOnce
from api.paging import AskedPage
from api.paths import KeyPath
from api.transactions import Reading, Writing
from api.views.accounts import key_view, new_key
from domain.errors import Forbidden, Invalid
from store import keys
from store.paging import Position

router = APIRouter(tags=["keys"])


@router.get("/whoami")
def whoami(caller: TenantCaller) -> Whoami:
    """Whose key this is."""
    return Whoami.model_validate(
        {
            "key_id": caller.key_id,
            "role": caller.role,
            "tenant_id": caller.tenant_id,
            "tenant_name": caller.tenant_name,
        }
    )


@router.get("/keys")
def list_keys(caller: TenantCaller, session: Reading, paging: AskedPage) -> Page[KeyView]:
    """The keys, newest first, without their secrets."""
    rows = keys.keys(session, caller.tenant_id, paging.limit, paging.start)
    return paging.page(rows, key_view, lambda row: Position(row.created_us, row.id))


@router.post("/keys", status_code=201, response_model=NewKey)
def make_key(body: KeySpec, caller: ActiveCaller, session: Writing, once: AskedOnce) -> Response:
    """Make a key. Its text is in this answer only: the same Idempotency-Key again is refused, not answered again."""
    if body.role == "admin" and not caller.is_admin:
        raise Forbidden("admin")
    if body.role == "tenant" and caller.is_admin:
        raise Invalid("an admin's key has the role admin", "make a tenant's key with POST /v1/tenants/{id}/keys")
    return once.create(
        session,
        body,
        lambda: new_key(*keys.mint_key(session, caller.tenant_id, body.name, body.expires_at)),
        is_secret=True,
    )


@router.delete("/keys/{key_id}", status_code=204)
def revoke_key(key_id: KeyPath, caller: ActiveCaller, session: Writing) -> None:
    """End a key, at once."""
    keys.revoke_key(session, caller.tenant_id, key_id)
