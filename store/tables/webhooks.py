"""Who is told of events, and what was sent."""

from sqlalchemy import Index, LargeBinary
from sqlmodel import Field

from store.base import Row, big, json


class Webhook(Row, table=True):
    """An address of a tenant that is told of events."""

    __tablename__ = "webhook"

    id: str = Field(primary_key=True)
    tenant_id: str = Field(foreign_key="tenant.id", index=True)
    url: str
    description: str | None = None
    types: list[str] = json(default_factory=list)
    """Of the events that it is told of; empty for all."""
    state: str = "active"
    version: int = big(default=1)
    """Grows with each new secret; what is sealed is bound to it."""
    wrapped_key: str
    ciphertext: bytes = Field(sa_type=LargeBinary)
    """Its secrets, sealed."""
    failing_since_us: int | None = big(default=None)
    """No delivery went well since then."""
    created_us: int = big()


class Delivery(Row, table=True):
    """An event on its way to a webhook."""

    __tablename__ = "delivery"
    __table_args__ = (
        Index("ix_delivery_due", "state", "next_attempt_us"),
        Index("ix_delivery_webhook", "webhook_id", "id"),
    )

    id: str = Field(primary_key=True)
    webhook_id: str = Field(foreign_key="webhook.id")
    tenant_id: str
    event_id: str
    """The same for every webhook and every attempt: by it a receiver knows what it has seen."""
    type: str
    body: str
    """What is sent, byte for byte."""
    state: str = "pending"
    """`pending`, `delivered` or `failed`."""
    attempts: int = 0
    next_attempt_us: int = big()
    """A try that is under way has moved it on: if its sender dies, another tries then."""
    status: int | None = None
    """Of the last answer."""
    error: str | None = None
    created_us: int = big()
    ended_us: int | None = big(default=None)
