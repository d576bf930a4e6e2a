"""What a node's Celery process lets in: hints as they are sent, and nothing else that may lie in its queue.

Celery's own loop dies of a message that is no JSON, obeys the callbacks in one, and keeps one with an ETA.
"""

import logging
from typing import Any, Literal

from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.transport.redis import Channel, Transport
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, Json, ValidationError
from redis import Redis

log = logging.getLogger(__name__)

LARGEST_BYTES = 16 * 1024
"""A hint has less than one thousand bytes."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class _Headers(_Part):
    task: Literal["worker.launch", "worker.stop"]
    id: str
    root_id: str
    retries: Literal[0]
    timelimit: tuple[None, None]
    eta: None
    expires: None
    group: None
    stamped_headers: None


class _DeliveryInfo(_Part):
    exchange: Literal[""]
    routing_key: str
    """Where Celery puts it back when it was not acknowledged."""


class _Properties(_Part):
    delivery_tag: str = Field(max_length=64)
    delivery_info: _DeliveryInfo
    body_encoding: Literal["base64"]
    correlation_id: str


class _Embedded(_Part):
    callbacks: None
    errbacks: None
    chain: None
    chord: None


class _Message(_Part):
    headers: _Headers
    properties: _Properties
    content_type: Literal["application/json"] = Field(alias="content-type")
    content_encoding: Literal["utf-8"] = Field(alias="content-encoding")
    body: Base64Bytes


class _Body(BaseModel):
    call: Json[tuple[tuple[str, int] | tuple[str], dict[str, None], _Embedded]]


def is_hint(raw: bytes, queue: str) -> bool:
    """Whether this is a hint for the queue in which it was found: bounded, JSON, of a known task, plain arguments."""
    if len(raw) > LARGEST_BYTES:
        return False
    try:
        message = _Message.model_validate_json(raw)
        _Body.model_validate({"call": message.body})
    except ValidationError:
        return False
    return message.properties.delivery_info.routing_key == queue


class _GuardedRedis(Redis):
    """A client whose BRPOP finds nothing where there is something else than a hint; that is then gone."""

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        answer = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        if command_name != "BRPOP" or not answer:
            return answer
        queue, raw = answer
        if is_hint(raw, queue.decode()):
            return answer
        log.warning("dropped a message of %d bytes that is no hint", len(raw))
        return None


class _GuardedChannel(Channel):
    def _get_client(self) -> type[Redis]:
        return _GuardedRedis


class _GuardedTransport(Transport):
    Channel = _GuardedChannel


class _GuardedConnection(Connection):
    def get_transport_cls(self) -> type[Transport]:
        return _GuardedTransport


class GuardedAMQP(AMQP):  # type: ignore[misc]  # Celery has no types
    """How an application that only receives hints speaks to Redis, whatever the URL's scheme."""

    Connection = _GuardedConnection
    default_exchange = None
    """Celery would bind the queue to it, and kombu keep that in keys of its own."""
