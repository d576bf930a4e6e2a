"""The nodes' own users on Redis, kept as the nodes' rows say.

A node makes its password anew at each start and tells the API the hash alone, so nobody but the node ever holds it.
"""

import logging
from collections.abc import Mapping

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from domain.ids import NodeId
from hints.access import SET_INFO, USER_PREFIX, node_rules, node_user
from hints.urls import for_redis_py

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 2.0


class NodeUsers:
    """Makes and removes the users; nothing here is fatal, since hints are needed by nobody. For one thread."""

    def __init__(self, redis_url: str) -> None:
        self._redis = Redis.from_url(
            for_redis_py(redis_url),
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 1),
            decode_responses=True,
        )
        self._knows_set_info = True
        self._complained = False

    def keep(self, password_hashes: Mapping[NodeId, str]) -> None:
        """Let exactly these nodes in, each with the password of this SHA-256 (hex), to its own keys.

        It is said again each time, because a Redis that was started anew has forgotten it.
        """
        try:
            self._let_in(password_hashes)
            known = {node_user(node_id) for node_id in password_hashes}
            found: list[str] = self._redis.execute_command("ACL", "USERS")  # type: ignore[no-untyped-call]
            if gone := [user for user in found if user.startswith(USER_PREFIX) and user not in known]:
                self._redis.execute_command("ACL", "DELUSER", *gone)  # type: ignore[no-untyped-call]
            self._complained = False
        except RedisError as error:
            if not self._complained:
                log.warning("the nodes' users on Redis can't be kept (%s); nodes find their work by heartbeat", error)
            self._complained = True

    def _let_in(self, password_hashes: Mapping[NodeId, str]) -> None:
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                for node_id, password_hash in password_hashes.items():
                    rules = node_rules(node_id, knows_set_info=self._knows_set_info)
                    words = ("ACL", "SETUSER", node_user(node_id), "on", "resetpass", f"#{password_hash}", *rules)
                    pipe.execute_command(*words)  # type: ignore[no-untyped-call]
                pipe.execute()
        except ResponseError as refusal:
            if SET_INFO not in str(refusal) or not self._knows_set_info:
                raise
            self._knows_set_info = False
            self._let_in(password_hashes)

    def close(self) -> None:
        """Let go of the connection."""
        self._redis.close()
