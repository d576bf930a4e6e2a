"""Secrets: set, listed without their values, deleted. No route shows a value but the one that gives it to a node."""

from typing import Annotated

import anyio
from corral.contract import Page
from corral.secrets import SecretName, SecretSpec, SecretView
from fastapi import APIRouter, Path

from api.auth import ActiveCaller, TenantCaller
from api.paging import AskedPage
from api.parts import AppMasterKeys
from api.paths import SecretPath, TenantQuery
from api.transactions import Reading, Writes, Writing
from api.views.secrets import secret_view
from store import secrets
from store.paging import Position
from store.sealing import envelope

router = APIRouter(prefix="/secrets", tags=["secrets"])


@router.get("")
def list_secrets(
    caller: TenantCaller, session: Reading, paging: AskedPage, tenant_id: TenantQuery = None
) -> Page[SecretView]:
    """Names, versions, sizes and times; never a value."""
    rows = secrets.secrets(session, caller.narrowed(tenant_id), paging.limit, paging.start_name)
    return paging.page(rows, secret_view, lambda row: Position(0, f"{row.tenant_id}/{row.name}"))


@router.put("/{name}")
async def set_secret(
    name: Annotated[SecretName, Path()],
    body: SecretSpec,
    caller: ActiveCaller,
    writes: Writes,
    keys: AppMasterKeys,
    tenant_id: TenantQuery = None,
) -> SecretView:
    """Set a secret, or replace it with a new version: jobs that start from now on read the new value."""
    owner = caller.acting_for(tenant_id)
    fresh = await anyio.to_thread.run_sync(envelope, keys, secrets.place_of(owner, name))
    return await writes.write(lambda session: secret_view(secrets.keep(session, owner, name, fresh, body.content)))


@router.delete("/{name}", status_code=204)
def delete_secret(name: SecretPath, caller: ActiveCaller, session: Writing, tenant_id: TenantQuery = None) -> None:
    """Delete a secret. A job that names it and has not started yet fails when it would."""
    secrets.forget(session, caller.acting_for(tenant_id), name)
