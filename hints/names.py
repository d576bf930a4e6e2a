"""The names of everything that Corral keeps in Redis: tasks, queues, keys and channels.

A node's names all begin with `corral.node.<id>.`. They end with a separator, because a pattern of Redis's access lists
for a name without one (`~corral.node.n1*`) also opens `corral.node.n10`. No `global_keyprefix` is used.
"""

from domain.ids import JobId, NodeId

LAUNCH = "worker.launch"
"""Task: an attempt was assigned to the node; its arguments are the attempt's id and fence."""
STOP = "worker.stop"
"""Task: an attempt is to stop; its arguments are the attempt's id and fence."""

WAKE_KEY = "corral.control.wake"
"""A list with one item at most: the dispatcher has something to do."""
UNROUTED_QUEUE = "corral.unrouted."
"""Where a task without a queue would go. Nothing reads it, and nothing is sent there."""


def node_prefix(node_id: NodeId) -> str:
    """What each key of the node begins with."""
    return f"corral.node.{node_id}."


def node_queue(node_id: NodeId) -> str:
    """The node's own queue of hints."""
    return f"{node_prefix(node_id)}queue."


def node_unacked_keys(node_id: NodeId) -> dict[str, str]:
    """The keys in which Celery keeps what was delivered and not yet acknowledged, as options of its transport.

    With Celery's defaults all nodes would share them, and no node's user could be kept off the others'.
    """
    prefix = node_prefix(node_id)
    return {
        "unacked_key": f"{prefix}unacked.",
        "unacked_index_key": f"{prefix}unacked_index.",
        "unacked_mutex_key": f"{prefix}unacked_mutex.",
    }


def job_channel(job_id: JobId) -> str:
    """Where each change of the job is announced, with no content."""
    return f"corral.job.{job_id}."
