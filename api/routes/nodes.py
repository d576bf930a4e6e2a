"""Nodes: the admin's."""

from corral.cluster import Empty, JoinToken, JoinTokenSpec, NodeView
from corral.contract import Page
from fastapi import APIRouter
from sqlmodel import Session
from starlette.responses import Response

from api.after_commit import Tell
from api.auth import AdminCaller
from api.once import AskedOnce
from api.paging import AskedPage
from api.paths import NodePath
from api.transactions import Reading, Writing
from api.views.cluster import node_view
from store import devices, node_tokens, nodes
from store.node_loss import give_up_node
from store.paging import Position

router = APIRouter(prefix="/nodes", tags=["nodes"])


@router.get("")
def list_nodes(caller: AdminCaller, session: Reading, paging: AskedPage) -> Page[NodeView]:
    """All nodes, newest first."""
    rows = devices.nodes(session, paging.limit, paging.start)
    return paging.page(rows, node_view, lambda row: Position(row.node.created_us, row.node.id))


@router.get("/{node_id}")
def show(node_id: NodePath, caller: AdminCaller, session: Reading) -> NodeView:
    """One node."""
    return node_view(devices.node(session, node_id))


@router.post("/{node_id}/drain")
def drain(node_id: NodePath, caller: AdminCaller, session: Writing, body: Empty | None = None) -> NodeView:
    """Start nothing new there; what runs goes on."""
    nodes.drain(session, node_id)
    return node_view(devices.node(session, node_id))


@router.post("/{node_id}/resume")
def resume(node_id: NodePath, caller: AdminCaller, session: Writing, tell: Tell, body: Empty | None = None) -> NodeView:
    """It takes jobs again."""
    nodes.resume(session, node_id)
    tell.wake()
    return node_view(devices.node(session, node_id))


@router.post("/{node_id}/revoke")
def revoke(node_id: NodePath, caller: AdminCaller, session: Writing, body: Empty | None = None) -> NodeView:
    """End its credential, at once: nothing that it says counts any more, until it joins anew with a new token."""
    node_tokens.revoke(session, node_id)
    return node_view(devices.node(session, node_id))


@router.post("/{node_id}/lost")
def lost(node_id: NodePath, caller: AdminCaller, session: Writing, tell: Tell, body: Empty | None = None) -> NodeView:
    """Say that it is gone for good, and all that ran there with it: its attempts end, its jobs may run elsewhere.

    Only an admin can know that a node is really off. One that still runs would run a job twice.
    """
    for job_id in give_up_node(session, node_id):
        tell.changed(job_id)
    tell.wake()
    return node_view(devices.node(session, node_id))


@router.post("/join-token", status_code=201, response_model=JoinToken)
def join_token(body: JoinTokenSpec, caller: AdminCaller, session: Writing, once: AskedOnce) -> Response:
    """A token with which one node may join, once. It is in this answer only."""
    return once.create(session, body, lambda: _make_token(session, body), is_secret=True)


def _make_token(session: Session, body: JoinTokenSpec) -> JoinToken:
    token, row = node_tokens.make_join_token(session, body.node_name, body.valid_seconds * 1_000_000)
    return JoinToken(id=row.id, token=token, node_name=row.node_name, expires_at=row.expires_us)
