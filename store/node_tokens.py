"""Credentials of nodes: joining tokens that are good once, and the nodes' own, which are renewed and revoked."""

import secrets
from collections.abc import Sequence

from sqlalchemy import update
from sqlmodel import Session, col, or_, select

from domain.errors import Conflict, NotFound, Unauthenticated
from store.clock import now_us
from store.events import record
from store.ids import new_id
from store.keys import hash_secret
from store.paging import Position, after
from store.tables import JoinToken, Node

TOKEN_BYTES = 32
"""A credential is 256 random bits: nobody guesses it, so a plain SHA-256 of it may be kept."""


def make_join_token(session: Session, node_name: str, valid_us: int) -> tuple[str, JoinToken]:
    """A token with which one node may join, once; its secret is not kept."""
    secret = f"corraljoin_{secrets.token_urlsafe(TOKEN_BYTES)}"
    now = now_us(session)
    row = JoinToken(
        id=new_id("tok"),
        secret_sha256=hash_secret(secret),
        node_name=node_name,
        created_us=now,
        expires_us=now + valid_us,
    )
    session.add(row)
    session.flush()
    return secret, row


def check_join_token(session: Session, secret: str) -> None:
    """Refuse a token with which no node may join, without writing. Joining looks again.

    Raises:
        Unauthenticated: it is unknown, used, revoked or expired.
    """
    token = session.exec(select(JoinToken).where(JoinToken.secret_sha256 == hash_secret(secret))).first()
    is_over = token is None or token.used_us is not None or token.revoked_us is not None
    if is_over or token is None or token.expires_us <= now_us(session):
        raise Unauthenticated


def join_tokens(session: Session, limit: int, start: Position | None) -> Sequence[JoinToken]:
    """All of them, used and over too, newest first; one more than `limit` if there are."""
    query = select(JoinToken)
    if start is not None:
        query = query.where(after(start, col(JoinToken.created_us), col(JoinToken.id)))
    order = (col(JoinToken.created_us).desc(), col(JoinToken.id).desc())
    return session.exec(query.order_by(*order).limit(limit + 1)).all()


def revoke_join_token(session: Session, token_id: str) -> None:
    """Let no node join with it any more. Revoking it again changes nothing.

    Raises:
        NotFound: there is none.
        Conflict: a node has joined with it; that node is revoked by itself.
    """
    token = session.get(JoinToken, token_id, with_for_update=True)
    if token is None:
        raise NotFound("join token")
    if token.used_us is not None:
        raise Conflict("a node has joined with this token", "revoke that node: corral admin nodes revoke")
    token.revoked_us = token.revoked_us or now_us(session)
    session.flush()


def join(session: Session, join_secret: str) -> tuple[Node, str]:
    """A new node, and the token that is its own from now on. A node of that name that was here before comes back.

    Raises:
        Unauthenticated: the token is unknown, used, revoked or expired.
        Conflict: a node of that name is alive.
    """
    now = now_us(session)
    used = session.execute(
        update(JoinToken)
        .where(
            col(JoinToken.secret_sha256) == hash_secret(join_secret),
            col(JoinToken.used_us).is_(None),
            col(JoinToken.revoked_us).is_(None),
            col(JoinToken.expires_us) > now,
        )
        .values(used_us=now)
    )
    if used.rowcount != 1:  # type: ignore[attr-defined]
        raise Unauthenticated
    token = session.exec(select(JoinToken).where(JoinToken.secret_sha256 == hash_secret(join_secret))).one()
    secret = _new_secret()
    node = session.exec(select(Node).where(Node.name == token.node_name).with_for_update()).first()
    if node is None:
        node = Node(id=new_id("nod"), name=token.node_name, token_sha256=hash_secret(secret), created_us=now)
        session.add(node)
    elif node.revoked_us is None and node.is_reachable and node.state != "lost" and node.beat > 0:
        raise Conflict(f"a node named {token.node_name} is alive", "drain it and declare it lost first, or pick a name")
    else:
        node.token_sha256, node.state = hash_secret(secret), "ready"
    node.next_token_sha256, node.revoked_us, node.token_made_us = None, None, now
    session.flush()
    record(session, "node_joined", node_id=node.id, text=f"node {node.name} joined")
    return node, secret


def node_by_token(session: Session, secret: str) -> Node:
    """The node whose own token this is: the one in use, or the one that is to take its place.

    Raises:
        Unauthenticated: it is nobody's, or was revoked.
    """
    shown = hash_secret(secret)
    is_its = or_(col(Node.token_sha256) == shown, col(Node.next_token_sha256) == shown)
    node = session.exec(select(Node).where(is_its, col(Node.revoked_us).is_(None))).first()
    if node is None:
        raise Unauthenticated
    return node


def renew(session: Session, node_id: str) -> str:
    """A token to take the place of the node's, which works on until the new one is first used.

    So an answer that is lost on the way locks no node out: it asks again.
    """
    secret = _new_secret()
    session.execute(update(Node).where(col(Node.id) == node_id).values(next_token_sha256=hash_secret(secret)))
    return secret


def take_over(session: Session, secret: str) -> None:
    """The renewed token is used: from now on it alone counts."""
    shown = hash_secret(secret)
    session.execute(
        update(Node)
        .where(col(Node.next_token_sha256) == shown)
        .values(token_sha256=shown, next_token_sha256=None, token_made_us=now_us(session))
    )


def revoke(session: Session, node_id: str) -> Node:
    """Nothing that the node says counts any more, and nothing new is placed there, until it joins anew.

    What runs there ends by the job's own `max_unreachable`, or when an admin declares the node lost.

    Raises:
        NotFound: there is none.
    """
    node = session.get(Node, node_id, with_for_update=True, populate_existing=True)
    if node is None:
        raise NotFound("node")
    if node.revoked_us is None:
        node.revoked_us, node.next_token_sha256, node.hints_password_sha256 = now_us(session), None, None
        node.state = "lost" if node.state == "lost" else "draining"
        record(session, "node_revoked", node_id=node.id, text=f"the credential of node {node.name} is revoked")
        session.flush()
    return node


def _new_secret() -> str:
    return f"corralnode_{secrets.token_urlsafe(TOKEN_BYTES)}"
