"""A look at a one-time token, before anything is made of it."""

from sqlmodel import Session, select

from domain.errors import Unauthenticated
from store.clock import now_us
from store.nodes import hash_secret
from store.tables import JoinToken


def check_join_token(session: Session, secret: str) -> None:
    """Refuse a token with which no node may join, without writing. Joining looks again.

    Raises:
        Unauthenticated: it is unknown, used or expired.
    """
    token = session.exec(select(JoinToken).where(JoinToken.secret_sha256 == hash_secret(secret))).first()
    if token is None or token.used_us is not None or token.expires_us <= now_us(session):
        raise Unauthenticated
