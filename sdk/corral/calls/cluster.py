"""Requests about nodes and devices."""

from corral.call import PAGE_LIMIT, Call, act, create, delete, get, place
from corral.cluster import GpuAvailability, JoinToken, JoinTokenSpec, JoinTokenView, NodeView
from corral.contract import Page


def gpus() -> Call[Page[GpuAvailability]]:
    """Kinds of device that a job could ask for."""
    return get(place("gpus"), Page[GpuAvailability], limit=PAGE_LIMIT)


def nodes() -> Call[Page[NodeView]]:
    """Every node (admin)."""
    return get(place("nodes"), Page[NodeView], limit=PAGE_LIMIT)


def node(node_id: str) -> Call[NodeView]:
    """One node (admin)."""
    return get(place("nodes", node_id), NodeView)


def drain_node(node_id: str) -> Call[NodeView]:
    """Nothing new starts there (admin)."""
    return act(place("nodes", node_id, "drain"), NodeView, is_repeatable=True)


def resume_node(node_id: str) -> Call[NodeView]:
    """It takes jobs again (admin)."""
    return act(place("nodes", node_id, "resume"), NodeView, is_repeatable=True)


def lose_node(node_id: str) -> Call[NodeView]:
    """Declare that it and all that ran there is gone for good (admin)."""
    return act(place("nodes", node_id, "lost"), NodeView, is_repeatable=False)


def create_join_token(spec: JoinTokenSpec) -> Call[JoinToken]:
    """A token with which one node may join, once (admin)."""
    return create(place("nodes", "join-token"), JoinToken, spec)


def revoke_node(node_id: str) -> Call[NodeView]:
    """End its credential, at once (admin)."""
    return act(place("nodes", node_id, "revoke"), NodeView, is_repeatable=True)


def join_tokens() -> Call[Page[JoinTokenView]]:
    """Every token with which a node could or can join (admin)."""
    return get(place("join-tokens"), Page[JoinTokenView], limit=PAGE_LIMIT)


def revoke_join_token(token_id: str) -> Call[None]:
    """Let no node join with it any more (admin)."""
    return delete(place("join-tokens", token_id))
