"""The Celery applications: one that only sends, and one for each node, which only receives.

A hint may be lost, late, doubled or forged, and changes nothing by itself: whoever gets it reads the truth and claims.
So there is no result, no ETA, no retry and no remote control, and every task ends within seconds.
"""

import warnings
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP
from celery.apps.worker import Worker
from celery.platforms import SecurityWarning
from kombu.entity import Exchange, Queue

from domain.ids import NodeId
from hints.guard import GuardedAMQP
from hints.names import UNROUTED_QUEUE, node_queue, node_unacked_keys
from hints.urls import for_kombu

VISIBILITY_SECONDS = 60
"""What a node took and did not acknowledge is delivered again after this time; a task returns long before."""
RESTORE_SECONDS = 10
"""How often a node looks for such messages."""
SEND_TIMEOUT_SECONDS = 0.4
"""Longest wait for one answer of Redis while a hint is sent: it must not hold up what was committed."""
RECEIVE_TIMEOUT_SECONDS = 30
"""More than the second that a blocking read lasts."""
CONNECT_SECONDS = 2


def sender_app(redis_url: str) -> Celery:
    """The application that sends hints. It gives up at once where Redis is away."""
    return _app(
        "corral-sender",
        redis_url,
        task_publish_retry=False,
        broker_connection_timeout=SEND_TIMEOUT_SECONDS,
        broker_transport_options={
            "socket_timeout": SEND_TIMEOUT_SECONDS,
            "socket_connect_timeout": SEND_TIMEOUT_SECONDS,
            "max_retries": 0,
            "priority_steps": [0],
        },
    )


def node_app(redis_url: str, node_id: NodeId) -> Celery:
    """The application of a node, on which its worker registers the tasks `hints.names.LAUNCH` and `STOP`."""
    queue = queue_of(node_id)
    return _app(
        f"corral-{node_id}",
        redis_url,
        amqp=GuardedAMQP,
        task_queues=[queue],
        task_default_queue=queue.name,
        task_acks_late=True,
        task_acks_on_failure_or_timeout=True,  # the sweep sends again what still matters
        worker_prefetch_multiplier=0,  # no limit: with one, a lost acknowledgement would leave the node deaf for ever
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            **node_unacked_keys(node_id),
            "visibility_timeout": VISIBILITY_SECONDS,
            "unacked_mutex_expire": RESTORE_SECONDS * 2,
            "unacked_restore_interval": RESTORE_SECONDS,
            "unacked_restore_throttle": 1,
            "priority_steps": [0],
            "socket_timeout": RECEIVE_TIMEOUT_SECONDS,
            "socket_connect_timeout": CONNECT_SECONDS,
        },
    )


def node_worker(app: Celery) -> Worker:
    """Celery's worker for the app of a node; `.start()` blocks and handles one hint at a time in this process.

    Mingle and gossip are off: they need keys that all nodes share.
    """
    with warnings.catch_warnings():
        # the worker of a node with a container engine is root; a hint makes it read its API and nothing else
        warnings.simplefilter("ignore", SecurityWarning)
        return app.Worker(
            pool="solo",
            concurrency=1,
            without_mingle=True,
            without_gossip=True,
            without_heartbeat=True,
            hostname=app.main,
            loglevel="WARNING",
            quiet=True,
        )


def queue_of(node_id: NodeId) -> Queue:
    """The node's queue. On the unnamed exchange it needs no binding, which would be one more key to lose or share."""
    name = node_queue(node_id)
    return Queue(name, exchange=Exchange("", type="direct"), routing_key=name)  # type: ignore[no-untyped-call]


def _app(name: str, redis_url: str, amqp: type[AMQP] = AMQP, **settings: Any) -> Celery:
    app = Celery(name, broker=for_kombu(redis_url), amqp=amqp, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        event_serializer="json",
        result_backend=None,
        task_ignore_result=True,
        task_create_missing_queues=False,
        task_default_queue=UNROUTED_QUEUE,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )
    app.conf.update(settings)
    return app
