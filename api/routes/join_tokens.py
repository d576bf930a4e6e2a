"""Tokens with which nodes join: which there are, and taking one back. They are made at /nodes/join-token."""

from corral.cluster import JoinTokenView
from corral.contract import Page
from fastapi import APIRouter

from api.auth import AdminCaller
from api.paging import AskedPage
from api.paths import JoinTokenPath
from api.transactions import Reading, Writing
from api.views.cluster import join_token_view
from store import node_tokens
from store.clock import now_us
from store.paging import Position

router = APIRouter(prefix="/join-tokens", tags=["join-tokens"])


@router.get("")
def list_tokens(caller: AdminCaller, session: Reading, paging: AskedPage) -> Page[JoinTokenView]:
    """All tokens, newest first, without their secrets."""
    rows, now = node_tokens.join_tokens(session, paging.limit, paging.start), now_us(session)
    return paging.page(rows, lambda row: join_token_view(row, now), lambda row: Position(row.created_us, row.id))


@router.delete("/{token_id}", status_code=204)
def revoke(token_id: JoinTokenPath, caller: AdminCaller, session: Writing) -> None:
    """Let no node join with it any more."""
    node_tokens.revoke_join_token(session, token_id)
