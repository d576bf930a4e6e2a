"""Deliveries as their sender sees them: what is due, claimed by moving its next attempt on, and how it went."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, func, select, update
from sqlmodel import Session

from domain.webhooks import retry_delay_us
from store.base import table_of
from store.clock import now_us
from store.engine import reading, writing
from store.events import record
from store.leader import check_epoch
from store.sealing import Sealed
from store.tables import Delivery, Webhook

CLAIM_US = 120_000_000
"""A claimed delivery whose sender dies is tried again after this."""
DISABLED_AFTER_US = 3 * 24 * 3_600_000_000
"""A webhook of which nothing arrived for so long is not called any more."""
KEPT_US = 30 * 24 * 3_600_000_000
"""For so long it can be seen what became of a delivery."""

_WEBHOOK, _DELIVERY = table_of(Webhook), table_of(Delivery)
_IS_PENDING = _DELIVERY.c.state == "pending"


@dataclass(frozen=True, slots=True)
class Due:
    """A webhook with something to send."""

    webhook_id: str
    tenant_id: str


@dataclass(frozen=True, slots=True)
class Sending:
    """A claimed delivery, with all that sending it needs."""

    delivery_id: str
    webhook_id: str
    event_id: str
    url: str
    body: str
    version: int
    sealed: Sealed
    attempts: int
    """With this one."""


def due(engine: Engine, most: int) -> Sequence[Due]:
    """Webhooks to which something should be sent now, the longest overdue first."""
    with reading(engine) as session:
        oldest = func.min(_DELIVERY.c.next_attempt_us)
        query = (
            select(_DELIVERY.c.webhook_id, _DELIVERY.c.tenant_id)
            .join(_WEBHOOK, _WEBHOOK.c.id == _DELIVERY.c.webhook_id)
            .where(_IS_PENDING, _DELIVERY.c.next_attempt_us <= now_us(session), _WEBHOOK.c.state == "active")
            .group_by(_DELIVERY.c.webhook_id, _DELIVERY.c.tenant_id)
            .order_by(oldest)
            .limit(most)
        )
        return [Due(row.webhook_id, row.tenant_id) for row in session.connection().execute(query)]


def claim(engine: Engine, epoch: int, webhook_id: str) -> Sending | None:
    """Take the webhook's next delivery, unless another sender does.

    Raises:
        StaleLeader: somebody else leads.
    """
    with writing(engine) as session:
        check_epoch(session, epoch)
        now = now_us(session)
        query = (
            select(_DELIVERY, _WEBHOOK.c.url, _WEBHOOK.c.version, _WEBHOOK.c.wrapped_key, _WEBHOOK.c.ciphertext)
            .join(_WEBHOOK, _WEBHOOK.c.id == _DELIVERY.c.webhook_id)
            .where(_IS_PENDING, _DELIVERY.c.webhook_id == webhook_id, _DELIVERY.c.next_attempt_us <= now)
            .order_by(_DELIVERY.c.next_attempt_us, _DELIVERY.c.id)
            .limit(1)
        )
        row = session.connection().execute(query).first()
        if row is None:
            return None
        taken = session.connection().execute(
            update(_DELIVERY)
            .where(_DELIVERY.c.id == row.id, _IS_PENDING, _DELIVERY.c.next_attempt_us == row.next_attempt_us)
            .values(next_attempt_us=now + CLAIM_US, attempts=row.attempts + 1)
        )
        if taken.rowcount != 1:
            return None
    sealed = Sealed(row.wrapped_key, row.ciphertext)
    return Sending(row.id, webhook_id, row.event_id, row.url, row.body, row.version, sealed, row.attempts + 1)


def arrived(engine: Engine, sending: Sending, status: int) -> None:
    """It was taken."""
    with writing(engine) as session:
        _hold(session, sending)
        session.connection().execute(
            update(_DELIVERY)
            .where(_DELIVERY.c.id == sending.delivery_id, _IS_PENDING)
            .values(state="delivered", status=status, error=None, ended_us=now_us(session))
        )
        session.connection().execute(
            update(_WEBHOOK)
            .where(_WEBHOOK.c.id == sending.webhook_id, _WEBHOOK.c.failing_since_us.is_not(None))
            .values(failing_since_us=None)
        )


def failed(engine: Engine, sending: Sending, status: int | None, error: str, jitter_milli: int) -> None:
    """It was not taken: it is tried again later, or given up; a webhook that takes nothing for days is disabled."""
    with writing(engine) as session:
        _hold(session, sending)
        now = now_us(session)
        delay = retry_delay_us(sending.attempts, jitter_milli)
        then = {"state": "failed", "ended_us": now} if delay is None else {"next_attempt_us": now + delay}
        session.connection().execute(
            update(_DELIVERY)
            .where(_DELIVERY.c.id == sending.delivery_id, _IS_PENDING)
            .values(status=status, error=error, **then)
        )
        is_it = _WEBHOOK.c.id == sending.webhook_id
        session.connection().execute(
            update(_WEBHOOK).where(is_it, _WEBHOOK.c.failing_since_us.is_(None)).values(failing_since_us=now)
        )
        tenant_id = session.connection().scalar(
            update(_WEBHOOK)
            .where(is_it, _WEBHOOK.c.state == "active", _WEBHOOK.c.failing_since_us <= now - DISABLED_AFTER_US)
            .values(state="disabled")
            .returning(_WEBHOOK.c.tenant_id)
        )
        if tenant_id is not None:
            text = f"webhook {sending.webhook_id} took nothing for days and is called no more"
            record(session, "webhook_disabled", tenant_id=tenant_id, text=text)


def forget_old(session: Session) -> None:
    """Remove deliveries that ended long ago."""
    session.connection().execute(
        _DELIVERY.delete().where(_DELIVERY.c.state != "pending", _DELIVERY.c.ended_us < now_us(session) - KEPT_US)
    )


def _hold(session: Session, sending: Sending) -> None:
    """Lock the webhook before its delivery, as everybody does."""
    session.connection().execute(select(_WEBHOOK.c.id).where(_WEBHOOK.c.id == sending.webhook_id).with_for_update())
