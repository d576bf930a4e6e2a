"""Webhooks: who is told of events, and what became of it."""

import time

import anyio
from corral.cluster import Empty
from corral.contract import Page
from corral.webhooks import DeliveryView, NewWebhook, WebhookChange, WebhookSpec, WebhookView
from fastapi import APIRouter
from sqlmodel import Session
from starlette.responses import Response

from api.auth import TenantAdminCaller
from api.once import AskedOnce
from api.paging import AskedPage
from api.parts import AppMasterKeys, AppSettings
from api.paths import DeliveryPath, TenantQuery, WebhookPath
from api.transactions import AppDatabase, Reading, Writes, Writing
from api.views.webhooks import delivery_view, new_webhook, webhook_view
from domain.errors import Conflict
from store import webhooks
from store.ids import new_id
from store.paging import Position
from store.sealing import Envelope, MasterKeys, Sealed, envelope, unseal
from store.webhooks import Secrets

router = APIRouter(prefix="/webhooks", tags=["webhooks"])


@router.get("")
def list_webhooks(
    caller: TenantAdminCaller, session: Reading, paging: AskedPage, tenant_id: TenantQuery = None
) -> Page[WebhookView]:
    """The tenant's webhooks, newest first, without their secrets."""
    rows = webhooks.webhooks(session, caller.narrowed(tenant_id), paging.limit, paging.start)
    return paging.page(rows, webhook_view, lambda row: Position(row.created_us, row.id))


@router.post("", status_code=201, response_model=NewWebhook)
async def create(
    body: WebhookSpec,
    caller: TenantAdminCaller,
    writes: Writes,
    keys: AppMasterKeys,
    settings: AppSettings,
    once: AskedOnce,
    tenant_id: TenantQuery = None,
) -> Response:
    """Make a webhook. Its secret is in this answer only: the same Idempotency-Key again is refused."""
    owner = caller.acting_for(tenant_id)
    settings.webhook_rules.target(body.url)
    id, secret = new_id("whk"), webhooks.new_secret()
    fresh = await anyio.to_thread.run_sync(envelope, keys, webhooks.place_of(id))

    def made(session: Session) -> NewWebhook:
        sealed = fresh.seal(Secrets(secret).content(), 1)
        row = webhooks.create(session, owner, id, body.url, body.description, body.types, sealed)
        return new_webhook(row, secret)

    return await writes.write(lambda session: once.create(session, body, lambda: made(session), is_secret=True))


@router.get("/{webhook_id}")
def show(webhook_id: WebhookPath, caller: TenantAdminCaller, session: Reading) -> WebhookView:
    """One webhook."""
    return webhook_view(webhooks.find(session, caller.scope, webhook_id))


@router.patch("/{webhook_id}")
def change(
    webhook_id: WebhookPath, body: WebhookChange, caller: TenantAdminCaller, session: Writing, settings: AppSettings
) -> WebhookView:
    """Set what is said; the rest stays. Made active again, it starts without the failures of before."""
    fields = {name: value for name, value in body.model_dump(exclude_unset=True).items() if value is not None}
    if body.url is not None:
        settings.webhook_rules.target(body.url)
    return webhook_view(webhooks.change(session, caller.scope, webhook_id, fields))


@router.delete("/{webhook_id}", status_code=204)
def delete(webhook_id: WebhookPath, caller: TenantAdminCaller, session: Writing) -> None:
    """Do away with it, and with what was not sent yet."""
    webhooks.delete(session, caller.scope, webhook_id)


@router.post("/{webhook_id}/test")
def send_test(
    webhook_id: WebhookPath, caller: TenantAdminCaller, session: Writing, body: Empty | None = None
) -> DeliveryView:
    """Send it a `webhook.test`."""
    return delivery_view(webhooks.send_test(session, caller.scope, webhook_id))


@router.post("/{webhook_id}/rotate")
async def rotate(
    webhook_id: WebhookPath,
    caller: TenantAdminCaller,
    database: AppDatabase,
    writes: Writes,
    keys: AppMasterKeys,
    body: Empty | None = None,
) -> NewWebhook:
    """Give it a new secret, shown in this answer only; for a day the old one signs too."""
    found = await database.read(lambda session: webhooks.find(session, caller.scope, webhook_id))
    secret, version = webhooks.new_secret(), found.version
    sealed = Sealed(found.wrapped_key, found.ciphertext)
    fresh, renewed = await anyio.to_thread.run_sync(_renewed, keys, webhook_id, sealed, version, secret)

    def replace(session: Session) -> NewWebhook:
        if not webhooks.renew_secret(session, webhook_id, fresh, renewed, version):
            raise Conflict("the webhook was changed in the meantime", "try again")
        return new_webhook(webhooks.find(session, caller.scope, webhook_id), secret)

    return await writes.write(replace)


@router.get("/{webhook_id}/deliveries")
def list_deliveries(
    webhook_id: WebhookPath, caller: TenantAdminCaller, session: Reading, paging: AskedPage
) -> Page[DeliveryView]:
    """What was and will be sent to it, newest first."""
    rows = webhooks.deliveries(session, caller.scope, webhook_id, paging.limit, paging.start_name)
    return paging.page(rows, delivery_view, lambda row: Position(0, row.id))


@router.post("/{webhook_id}/deliveries/{delivery_id}/redeliver")
def redeliver(
    webhook_id: WebhookPath,
    delivery_id: DeliveryPath,
    caller: TenantAdminCaller,
    session: Writing,
    body: Empty | None = None,
) -> DeliveryView:
    """Send the same event once more, now."""
    return delivery_view(webhooks.redeliver(session, caller.scope, webhook_id, delivery_id))


def _renewed(keys: MasterKeys, webhook_id: str, sealed: Sealed, version: int, secret: str) -> tuple[Envelope, Secrets]:
    place = webhooks.place_of(webhook_id)
    old = Secrets.of(unseal(keys, sealed, place, version))
    return envelope(keys, place), old.rotated(secret, time.time_ns() // 1000)
