"""Sends what webhooks are to be told, beside the leader's other work: many at once, few of each tenant.

At least once: a sender that dies after the answer sends again. The order is not promised.
"""

import base64
import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Engine

from control.outbound import NotReached, Resolver, post, resolve
from domain.errors import CannotUnseal, NoSealingKey, SealingAway
from domain.webhooks import WebhookRules
from store import deliveries
from store.deliveries import Due, Sending
from store.sealing import MasterKeys, unseal
from store.webhooks import Secrets, place_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
SENDERS = 32
OF_ONE_TENANT = 4
OF_ONE_WEBHOOK = 2
"""At once: who answers slowly delays only its own."""
SEND_SECONDS = 15.0
WEBHOOKS_AT_ONCE = 1000
USER_AGENT = "Corral-Webhooks/1"


class Deliverer:
    """Sends, as the leader of one epoch."""

    def __init__(
        self,
        engine: Engine,
        epoch: int,
        keys: MasterKeys,
        rules: WebhookRules,
        resolver: Resolver = resolve,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        self._engine = engine
        self._epoch = epoch
        self._keys = keys
        self._rules = rules
        self._resolver = resolver
        self._send_seconds = send_seconds
        self._pool = ThreadPoolExecutor(SENDERS, thread_name_prefix="webhook")
        self._lock = threading.Lock()
        self._busy: Counter[str] = Counter()
        """Sends under way, by webhook and by tenant."""

    def look(self) -> None:
        """Begin to send what is due, as far as there is room.

        Raises:
            StaleLeader: somebody else leads.
        """
        for each in deliveries.due(self._engine, WEBHOOKS_AT_ONCE):
            while self._begin(each):
                sending = deliveries.claim(self._engine, self._epoch, each.webhook_id)
                if sending is None:
                    self._end(each)
                    break
                self._pool.submit(self._send, each, sending)

    def close(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._pool.shutdown(cancel_futures=True)

    def _begin(self, each: Due) -> bool:
        with self._lock:
            if (
                self._busy.total() >= 2 * SENDERS
                or self._busy[each.tenant_id] >= OF_ONE_TENANT
                or self._busy[each.webhook_id] >= OF_ONE_WEBHOOK
            ):
                return False
            self._busy.update((each.tenant_id, each.webhook_id))
            return True

    def _end(self, each: Due) -> None:
        with self._lock:
            self._busy.subtract((each.tenant_id, each.webhook_id))
            self._busy += Counter()  # forgets those with nothing under way

    def _send(self, each: Due, sending: Sending) -> None:
        try:
            self._sent(sending)
        except Exception:  # the edge of a thread: the delivery is tried again when its claim has run out
            log.exception("a delivery failed inside")
        finally:
            self._end(each)

    def _sent(self, sending: Sending) -> None:
        jitter = secrets.randbelow(1001)
        try:
            content = unseal(self._keys, sending.sealed, place_of(sending.webhook_id), sending.version)
            headers = signed_headers(sending, Secrets.of(content).valid(time.time_ns() // 1000), int(time.time()))
            status = post(sending.url, sending.body.encode(), headers, self._rules, self._send_seconds, self._resolver)
        except NotReached as why:
            deliveries.failed(self._engine, sending, None, str(why), jitter)
            return
        except (CannotUnseal, SealingAway, NoSealingKey) as why:
            deliveries.failed(self._engine, sending, None, f"it cannot be signed: {why}", jitter)
            return
        if 200 <= status < 300:
            deliveries.arrived(self._engine, sending, status)
        else:
            deliveries.failed(self._engine, sending, status, f"it answered {status}", jitter)


def signed_headers(sending: Sending, valid: Sequence[str], timestamp: int) -> dict[str, str]:
    """The headers of Standard Webhooks 1.0: id, time stamp, and a signature by each secret that is valid."""
    signatures = [_signature(secret, f"{sending.event_id}.{timestamp}.{sending.body}") for secret in valid]
    return {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "webhook-id": sending.event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def _signature(secret: str, text: str) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
