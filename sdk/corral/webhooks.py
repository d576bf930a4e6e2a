"""Webhooks: what is sent about them, and `verify`, with which a receiver tells a delivery from a forgery."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any, Literal

from corral.contract import Line, Request, View
from corral.errors import CorralError
from pydantic import Field

EventType = Literal[
    "budget.warning",
    "image.allowed",
    "image.blocked",
    "job.cancelled",
    "job.failed",
    "job.held",
    "job.queued",
    "job.started",
    "job.succeeded",
    "quota.ended",
    "quota.granted",
    "quota.refused",
]
TOLERANCE_SECONDS = 300


class WebhookSpec(Request):
    """A webhook to be made."""

    url: str = Field(min_length=1, max_length=2000)
    """`https://` and a public host."""
    types: list[EventType] = Field(default=[], max_length=50)
    """What it is told of; empty for everything."""
    description: Line | None = None


class WebhookChange(Request):
    """What to change of a webhook; what is left out stays."""

    url: str | None = Field(default=None, min_length=1, max_length=2000)
    types: list[EventType] | None = Field(default=None, max_length=50)
    description: Line | None = None
    state: Literal["active", "disabled"] | None = None


class WebhookView(View):
    id: str
    tenant_id: str
    url: str
    types: list[str]
    description: str | None
    state: str
    failing_since: int | None
    """No delivery went well since then."""
    created_at: int


class NewWebhook(WebhookView):
    """A webhook just made, or its new secret: the only time that it is shown."""

    secret: str


class DeliveryView(View):
    id: str
    webhook_id: str
    event_id: str
    type: str
    state: str
    """`pending`, `delivered` or `failed`."""
    attempts: int
    next_attempt_at: int | None
    status: int | None
    """Of the last answer."""
    error: str | None
    created_at: int
    ended_at: int | None


class NotGenuine(CorralError):
    code = "not_genuine"


def verify(
    headers: Mapping[str, str],
    body: bytes | str,
    secret: str,
    tolerance: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> dict[str, Any]:
    """The event, if Corral sent it: the signature is right, and it was made within `tolerance` seconds.

    The same event may come more than once; `id` tells.

    Raises:
        NotGenuine: it is not, or cannot be told.
    """
    said = {name.lower(): value for name, value in headers.items()}
    try:
        id, stamp = said["webhook-id"], said["webhook-timestamp"]
        given = [each.removeprefix("v1,") for each in said["webhook-signature"].split(" ") if each.startswith("v1,")]
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        age = abs((time.time() if now is None else now) - int(stamp))
    except (KeyError, ValueError, binascii.Error):
        raise NotGenuine("the headers of a delivery are missing or malformed") from None
    if age > tolerance:
        raise NotGenuine("the delivery is too old, or this machine's clock is wrong")
    raw = body.encode() if isinstance(body, str) else body
    right = base64.b64encode(hmac.new(key, f"{id}.{stamp}.".encode() + raw, hashlib.sha256).digest()).decode()
    if not any(hmac.compare_digest(right.encode(), each.encode("utf-8", "replace")) for each in given):
        raise NotGenuine("the signature is not by this secret")
    event: dict[str, Any] = json.loads(raw)
    return event
