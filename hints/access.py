"""What a node's own Redis user may do: consume its own queue, and nothing else.

A node that is broken into can read and forge its own hints, which change nothing; it can't see another node's, wake
the dispatcher, hear of jobs, or empty the server (no `@scripting` as a whole: that would grant SCRIPT FLUSH).
"""

from domain.ids import NodeId
from hints.names import node_prefix

COMMANDS = (
    "ping",
    "client|setinfo",
    "select",
    "brpop",
    "llen",
    "lpush",
    "rpush",
    "multi",
    "exec",
    "discard",
    "watch",
    "unwatch",
    "zadd",
    "zrem",
    "zrange",
    "hget",
    "hset",
    "hdel",
    "set",
    "get",
    "del",
    "evalsha",
    "script|load",
)
"""What Celery's consumer uses: the queue, the messages in its hands, and a mutex around their return."""


USER_PREFIX = "corral.node."
"""How the names of these users begin; no other user of the server may be named so."""


def node_user(node_id: NodeId) -> str:
    """The name of the node's user."""
    return f"{USER_PREFIX}{node_id}"


def node_rules(node_id: NodeId) -> tuple[str, ...]:
    """The rules for `ACL SETUSER`, after `on` and the password."""
    return ("resetkeys", f"~{node_prefix(node_id)}*", "resetchannels", "-@all", *(f"+{each}" for each in COMMANDS))
