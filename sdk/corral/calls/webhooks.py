"""Requests about webhooks."""

from corral.call import PAGE_LIMIT, Call, act, create, delete, get, patch, place
from corral.contract import Page
from corral.webhooks import DeliveryView, NewWebhook, WebhookChange, WebhookSpec, WebhookView


def webhooks(*, tenant_id: str | None = None) -> Call[Page[WebhookView]]:
    """The tenant's webhooks."""
    return get(place("webhooks"), Page[WebhookView], limit=PAGE_LIMIT, tenant_id=tenant_id)


def create_webhook(spec: WebhookSpec, *, tenant_id: str | None = None) -> Call[NewWebhook]:
    """A new webhook; its secret is in this answer and never again."""
    return create(place("webhooks"), NewWebhook, spec, tenant_id=tenant_id)


def webhook(webhook_id: str) -> Call[WebhookView]:
    """One webhook."""
    return get(place("webhooks", webhook_id), WebhookView)


def change_webhook(webhook_id: str, change: WebhookChange) -> Call[WebhookView]:
    """Set what is said; the rest stays."""
    return patch(place("webhooks", webhook_id), WebhookView, change)


def delete_webhook(webhook_id: str) -> Call[None]:
    """Do away with it."""
    return delete(place("webhooks", webhook_id))


def test_webhook(webhook_id: str) -> Call[DeliveryView]:
    """Send it an event that tells nothing."""
    return act(place("webhooks", webhook_id, "test"), DeliveryView, is_repeatable=False)


def rotate_webhook_secret(webhook_id: str) -> Call[NewWebhook]:
    """A new secret; for a day the old one signs too."""
    return act(place("webhooks", webhook_id, "rotate"), NewWebhook, is_repeatable=False)


def deliveries(webhook_id: str) -> Call[Page[DeliveryView]]:
    """What was and will be sent to it, newest first."""
    return get(place("webhooks", webhook_id, "deliveries"), Page[DeliveryView], limit=PAGE_LIMIT)


def redeliver(webhook_id: str, delivery_id: str) -> Call[DeliveryView]:
    """The same event once more."""
    path = place("webhooks", webhook_id, "deliveries", delivery_id, "redeliver")
    return act(path, DeliveryView, is_repeatable=False)
