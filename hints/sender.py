"""Sends hints. All are sent after the commit, and none is needed: a sweep finds what was not heard."""

from collections.abc import Sequence

from celery import Celery
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from domain.ids import AttemptId, Fence, JobId, NodeId
from hints.app import SEND_TIMEOUT_SECONDS, queue_of, sender_app
from hints.link import Link
from hints.names import LAUNCH, STOP, WAKE_KEY, job_channel
from hints.urls import for_redis_py

RECONNECT_ONCE = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
"""A connection may have gone stale since the last hint."""


class Hints:
    """Says over Redis that there is something to look at. Any thread may use it.

    No method raises when Redis is away or refuses, and none waits for it longer than about a second, nor again within
    a second of a failure.
    """

    def __init__(self, redis_url: str) -> None:
        self._redis = Redis.from_url(
            for_redis_py(redis_url),
            socket_timeout=SEND_TIMEOUT_SECONDS,
            socket_connect_timeout=SEND_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 1),
        )
        self._celery: Celery = sender_app(redis_url)
        self._link = Link()

    def warm(self) -> None:
        """Connect now, so that the first hint is no slower than the others."""
        self._link.attempt(self._connect)

    def wake(self) -> None:
        """Tell the dispatcher to make a pass. Many calls before it does make one."""
        self._link.attempt(self._push_wake)

    def launch(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None:
        """Tell the node that an attempt was assigned to it."""
        self._link.attempt(lambda: self._send(LAUNCH, node_id, [attempt_id, fence]))

    def stop(self, node_id: NodeId, attempt_id: AttemptId, fence: Fence) -> None:
        """Tell the node that an attempt is to stop."""
        self._link.attempt(lambda: self._send(STOP, node_id, [attempt_id, fence]))

    def changed(self, *job_ids: JobId) -> None:
        """Tell who follows these jobs to look again."""
        if job_ids:
            self._link.attempt(lambda: self._publish(job_ids))

    def close(self) -> None:
        """Let go of the connections."""
        self._redis.close()
        self._celery.close()

    def _connect(self) -> None:
        self._redis.ping()
        with self._celery.producer_pool.acquire(block=True) as producer:
            producer.connection.ensure_connection(max_retries=1, timeout=SEND_TIMEOUT_SECONDS)

    def _push_wake(self) -> None:
        with self._redis.pipeline(transaction=True) as pipe:
            pipe.lpush(WAKE_KEY, b"1")
            pipe.ltrim(WAKE_KEY, 0, 0)
            pipe.execute()

    def _publish(self, job_ids: Sequence[JobId]) -> None:
        with self._redis.pipeline(transaction=False) as pipe:
            for job_id in job_ids:
                pipe.publish(job_channel(job_id), b"")
            pipe.execute()

    def _send(self, task: str, node_id: NodeId, arguments: list[str | int]) -> None:
        self._celery.send_task(
            task,
            args=arguments,
            queue=queue_of(node_id),
            declare=[],
            retry=True,
            retry_policy=RECONNECT_ONCE,
            ignore_result=True,
        )
