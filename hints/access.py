"""What the users of a shared Redis may do: a node may consume its own queue, and nothing else.

A node that is broken into can read and forge its own hints, which change nothing; it can't see another node's, wake
the dispatcher, hear of jobs, or empty the server (no `@scripting` as a whole: that would grant SCRIPT FLUSH).
"""

from domain.ids import NodeId
from hints.names import node_prefix

SET_INFO = "client|setinfo"
"""What a client says of itself; a server before Redis 7.2 knows no such command, and refuses rules that name it."""

COMMANDS = (
    "ping",
    SET_INFO,
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


def node_rules(node_id: NodeId, *, knows_set_info: bool = True) -> tuple[str, ...]:
    """The rules for `ACL SETUSER`, after `on` and the password."""
    commands = (each for each in COMMANDS if knows_set_info or each != SET_INFO)
    return ("resetkeys", f"~{node_prefix(node_id)}*", "resetchannels", "-@all", *(f"+{each}" for each in commands))


SERVICE_KEYS = ("corral.*", "LIMITS:*")
"""What the control plane keeps in Redis: hints, and the counts of the rate limits."""


def api_rules() -> tuple[str, ...]:
    """The rules for the user of the API processes: what Corral keeps there, and nothing that rules the server."""
    keys = (f"~{pattern}" for pattern in SERVICE_KEYS)
    return ("resetkeys", *keys, "resetchannels", "&corral.*", "+@all", "-@admin", "-@dangerous", "+info")


def control_rules() -> tuple[str, ...]:
    """The same for the control processes, which keep the nodes' users besides."""
    return (*api_rules(), "+acl|setuser", "+acl|deluser", "+acl|users")
