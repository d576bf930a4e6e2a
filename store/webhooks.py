"""Webhooks of tenants, and the deliveries that events make, in the transaction of the event."""

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, insert
from sqlalchemy import select as select_columns
from sqlmodel import Session, col, func, select

from domain.errors import Limit, NotFound
from domain.ids import TenantId
from domain.webhooks import TEST_TYPE, TYPES
from store.base import table_of
from store.clock import now_us
from store.ids import new_id
from store.paging import Position, after
from store.scopes import reaches
from store.sealing import Envelope, Sealed
from store.statements import Query, take_steps
from store.tables import Delivery, Webhook

WEBHOOKS_MAX = 20
"""Of one tenant."""
PENDING_MAX = 10_000
"""Deliveries of one webhook that wait; what happens beyond that is not told to it."""
OLD_SECRET_US = 24 * 3_600_000_000
"""For so long after a new secret the old one signs too."""
_PUBLISHED = "published_events"

_WEBHOOK, _DELIVERY = table_of(Webhook), table_of(Delivery)
_LISTENING = (
    select_columns(_WEBHOOK.c.id, _WEBHOOK.c.tenant_id, _WEBHOOK.c.types)
    .where(_WEBHOOK.c.tenant_id.in_(bindparam("of", expanding=True)), _WEBHOOK.c.state == "active")
    .order_by(_WEBHOOK.c.id)
    .with_for_update(read=True, key_share=True)  # none is deleted meanwhile
)
_ADD = insert(_DELIVERY)


@dataclass(frozen=True, slots=True)
class Secrets:
    """With what a webhook's deliveries are signed."""

    current: str
    previous: str | None = None
    previous_until_us: int = 0

    def content(self) -> bytes:
        """As it is sealed."""
        return json.dumps([self.current, self.previous, self.previous_until_us]).encode()

    @classmethod
    def of(cls, content: bytes) -> "Secrets":
        """From what was sealed."""
        return cls(*json.loads(content))

    def rotated(self, fresh: str, now: int) -> "Secrets":
        """With a new one; the one before goes on for a while."""
        return Secrets(fresh, self.current, now + OLD_SECRET_US)

    def valid(self, now: int) -> Sequence[str]:
        """Those that sign now."""
        return [self.current] + ([self.previous] if self.previous and now < self.previous_until_us else [])


def place_of(webhook_id: str) -> str:
    """The place to which its secrets' envelope is bound."""
    return f"webhook/{webhook_id}"


def create(
    session: Session,
    tenant_id: TenantId,
    id: str,
    url: str,
    description: str | None,
    types: Sequence[str],
    sealed: Sealed,
) -> Webhook:
    """A new webhook, whose id was made before: its secret is bound to it.

    Raises:
        Limit: the tenant has as many as it may.
    """
    count = session.exec(select(func.count()).select_from(Webhook).where(Webhook.tenant_id == tenant_id)).one()
    if count >= WEBHOOKS_MAX:
        raise Limit(f"a tenant has at most {WEBHOOKS_MAX} webhooks", "delete one: corral webhooks delete ID")
    made = Webhook(
        id=id,
        tenant_id=tenant_id,
        url=url,
        description=description,
        types=list(types),
        wrapped_key=sealed.wrapped_key,
        ciphertext=sealed.ciphertext,
        created_us=now_us(session),
    )
    session.add(made)
    session.flush()
    return made


def find(session: Session, scope: TenantId | None, webhook_id: str) -> Webhook:
    """One webhook.

    Raises:
        NotFound: there is none, or it is another tenant's.
    """
    found = session.get(Webhook, webhook_id)
    if found is None or not reaches(session, scope, found.tenant_id):
        raise NotFound("webhook")
    return found


def webhooks(session: Session, scope: TenantId | None, limit: int, start: Position | None) -> Sequence[Webhook]:
    """The tenant's webhooks, newest first; one more than `limit` if there are."""
    query = select(Webhook)
    if scope is not None:
        query = query.where(Webhook.tenant_id == scope)
    if start is not None:
        query = query.where(after(start, col(Webhook.created_us), col(Webhook.id)))
    order = (col(Webhook.created_us).desc(), col(Webhook.id).desc())
    return session.exec(query.order_by(*order).limit(limit + 1)).all()


def change(session: Session, scope: TenantId | None, webhook_id: str, fields: Mapping[str, Any]) -> Webhook:
    """Set some of its fields. One that is made active again begins without the failures of before."""
    found = find(session, scope, webhook_id)
    for name, value in fields.items():
        setattr(found, name, value)
    if fields.get("state") == "active":
        found.failing_since_us = None
    session.flush()
    return found


def renew_secret(session: Session, webhook_id: str, envelope: Envelope, renewed: Secrets, version: int) -> bool:
    """Whether the secrets were replaced; not if somebody else did since `version`."""
    sealed = envelope.seal(renewed.content(), version + 1)
    found = session.get(Webhook, webhook_id, with_for_update=True, populate_existing=True)
    if found is None or found.version != version:
        return False
    found.version, found.wrapped_key, found.ciphertext = version + 1, sealed.wrapped_key, sealed.ciphertext
    session.flush()
    return True


def delete(session: Session, scope: TenantId | None, webhook_id: str) -> None:
    """Do away with it and its deliveries."""
    found = find(session, scope, webhook_id)
    session.refresh(found, with_for_update=True)
    session.connection().execute(_DELIVERY.delete().where(_DELIVERY.c.webhook_id == found.id))
    session.delete(found)
    session.flush()


def deliveries(
    session: Session, scope: TenantId | None, webhook_id: str, limit: int, start: str | None
) -> Sequence[Delivery]:
    """What was and will be sent to it, newest first; one more than `limit` if there are."""
    find(session, scope, webhook_id)
    query = select(Delivery).where(Delivery.webhook_id == webhook_id)
    if start is not None:
        query = query.where(col(Delivery.id) < start)
    return session.exec(query.order_by(col(Delivery.id).desc()).limit(limit + 1)).all()


def redeliver(session: Session, scope: TenantId | None, webhook_id: str, delivery_id: str) -> Delivery:
    """The same event once more, now.

    Raises:
        NotFound: there is no such delivery of this webhook.
        Limit: too many of its deliveries wait.
    """
    find(session, scope, webhook_id)
    earlier = session.get(Delivery, delivery_id)
    if earlier is None or earlier.webhook_id != webhook_id:
        raise NotFound("delivery")
    return _deliver_now(session, webhook_id, earlier.tenant_id, earlier.event_id, earlier.type, earlier.body)


def send_test(session: Session, scope: TenantId | None, webhook_id: str) -> Delivery:
    """An event that tells nothing, now.

    Raises:
        NotFound: there is no such webhook within the scope.
        Limit: too many of its deliveries wait.
    """
    found = find(session, scope, webhook_id)
    event_id, now = new_id("evt"), now_us(session)
    body = _body(event_id, TEST_TYPE, now, found.tenant_id, {"webhook_id": webhook_id})
    return _deliver_now(session, webhook_id, found.tenant_id, event_id, TEST_TYPE, body)


def publish(session: Session, events: Sequence[Mapping[str, Any]]) -> None:
    """Note what is of a kind that is told, for the webhooks of its tenant; `write_deliveries` follows."""
    told = [event for event in events if event["what"] in TYPES and event["tenant_id"] is not None]
    if told:
        session.info.setdefault(_PUBLISHED, []).extend(told)


def write_deliveries(session: Session) -> None:
    """Make the deliveries of what was noted: one question for all tenants, and mostly that is all."""
    events = session.info.pop(_PUBLISHED, ())
    if not events:
        return
    tenants = sorted({event["tenant_id"] for event in events})
    hooks = take_steps(session, Query(_LISTENING, {"of": tenants}))[0].found
    room = {hook.id: _room(session, hook.id) for hook in hooks}
    rows = []
    for event in events if hooks else ():
        type = TYPES[event["what"]]
        event_id = new_id("evt")
        body = _body(event_id, type, event["at_us"], event["tenant_id"], _data(event))
        for hook in hooks:
            if hook.tenant_id == event["tenant_id"] and (not hook.types or type in hook.types) and room[hook.id] > 0:
                room[hook.id] -= 1
                rows.append(_row(hook.id, hook.tenant_id, event_id, type, body, event["at_us"]))
    if rows:
        session.connection().execute(_ADD, rows)


def new_secret() -> str:
    """A secret as the receivers' libraries want it: `whsec_` and 32 random bytes in base64."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def _room(session: Session, webhook_id: str) -> int:
    query = select_columns(func.count()).select_from(_DELIVERY)
    waiting = session.connection().scalar(
        query.where(_DELIVERY.c.webhook_id == webhook_id, _DELIVERY.c.state == "pending")
    )
    return PENDING_MAX - int(waiting or 0)


def _deliver_now(session: Session, webhook_id: str, tenant_id: str, event_id: str, type: str, body: str) -> Delivery:
    if _room(session, webhook_id) <= 0:
        raise Limit(f"{PENDING_MAX} deliveries of this webhook wait", "wait until they are sent, or delete the webhook")
    made = Delivery(**_row(webhook_id, tenant_id, event_id, type, body, now_us(session)))
    session.add(made)
    session.flush()
    return made


def _row(webhook_id: str, tenant_id: str, event_id: str, type: str, body: str, at_us: int) -> dict[str, Any]:
    return {
        "id": new_id("dlv"),
        "webhook_id": webhook_id,
        "tenant_id": tenant_id,
        "event_id": event_id,
        "type": type,
        "body": body,
        "state": "pending",
        "attempts": 0,
        "next_attempt_us": at_us,
        "created_us": at_us,
    }


def _data(event: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: event[name] for name in ("job_id", "attempt_id") if event[name] is not None}
    return {**event["data"], **named, "text": event["text"]}


def _body(event_id: str, type: str, at_us: int, tenant_id: str, data: Mapping[str, Any]) -> str:
    content = {"id": event_id, "type": type, "version": 1, "created_at": at_us, "tenant_id": tenant_id, "data": data}
    return json.dumps(content, separators=(",", ":"))
