"""Whose signature the images of which repositories must carry."""

from collections.abc import Sequence

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from domain import images
from domain.errors import Conflict, NotFound
from store.clock import now_us
from store.events import record
from store.ids import new_id
from store.tables import SignatureRule


def rules(session: Session) -> Sequence[images.SignatureRule]:
    """All of them."""
    return [
        images.SignatureRule(row.id, row.pattern, row.key_pem, row.identity, row.issuer, row.is_logged)
        for row in session.exec(select(SignatureRule).order_by(col(SignatureRule.pattern)))
    ]


def rule_rows(session: Session, limit: int, start: str | None) -> Sequence[SignatureRule]:
    """The rules by pattern; one more than `limit` if there are."""
    query = select(SignatureRule)
    if start is not None:
        query = query.where(col(SignatureRule.pattern) > start)
    return session.exec(query.order_by(col(SignatureRule.pattern)).limit(limit + 1)).all()


def add_rule(
    session: Session, pattern: str, key_pem: str | None, identity: str | None, issuer: str | None, is_logged: bool
) -> SignatureRule:
    """Ask for a signature from now on.

    Raises:
        Conflict: there is a rule for this pattern.
    """
    row = SignatureRule(
        id=new_id("sig"),
        pattern=pattern,
        key_pem=key_pem,
        identity=identity,
        issuer=issuer,
        is_logged=is_logged,
        created_us=now_us(session),
    )
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        raise Conflict(f"there is a rule for {pattern}", "remove it first") from None
    record(session, "signature_rule_added", text=pattern)
    return row


def remove_rule(session: Session, rule_id: str) -> SignatureRule:
    """Ask for it no longer.

    Raises:
        NotFound: there is no such rule.
    """
    row = session.get(SignatureRule, rule_id)
    if row is None:
        raise NotFound("signature rule")
    session.delete(row)
    session.flush()
    record(session, "signature_rule_removed", text=row.pattern)
    return row
