"""Webhooks and their deliveries, as they are shown."""

from typing import Any

from corral.webhooks import DeliveryView, NewWebhook, WebhookView

from store.tables import Delivery, Webhook


def webhook_view(webhook: Webhook) -> WebhookView:
    """A webhook, without its secret."""
    return WebhookView.model_validate(_fields(webhook))


def new_webhook(webhook: Webhook, secret: str) -> NewWebhook:
    """A webhook with a secret just made."""
    return NewWebhook.model_validate({**_fields(webhook), "secret": secret})


def delivery_view(delivery: Delivery) -> DeliveryView:
    """A delivery, without what it holds."""
    is_over = delivery.state != "pending"
    return DeliveryView.model_validate(
        {
            **delivery.model_dump(),
            "next_attempt_at": None if is_over else delivery.next_attempt_us,
            "created_at": delivery.created_us,
            "ended_at": delivery.ended_us,
        }
    )


def _fields(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "tenant_id": webhook.tenant_id,
        "url": webhook.url,
        "types": webhook.types,
        "description": webhook.description,
        "state": webhook.state,
        "failing_since": webhook.failing_since_us,
        "created_at": webhook.created_us,
    }
