"""How a statement asks whether a digest is blocked: under every name, so what counts is a reference's end."""

from sqlalchemy import ColumnElement, exists, func, select
from sqlmodel import Session

from domain.errors import ImageBlocked
from domain.images import DIGEST_CHARACTERS, digest_of
from store.base import table_of
from store.tables import ImageBlock

_BLOCK = table_of(ImageBlock)


def digest_column(reference: ColumnElement[str]) -> ColumnElement[str]:
    """The digest at the end of a reference, as `domain.images.digest_of` has it."""
    return func.substr(reference, func.length(reference) - (DIGEST_CHARACTERS - 1))


def is_blocked(reference: ColumnElement[str]) -> ColumnElement[bool]:
    """For a WHERE: whether what a column refers to is blocked."""
    return exists(select(_BLOCK.c.digest).where(_BLOCK.c.digest == digest_column(reference)))


def check_not_blocked(session: Session, reference: str) -> None:
    """For the moment at which a node takes an attempt.

    Raises:
        ImageBlocked: an admin has blocked it.
    """
    reason = session.connection().execute(
        select(_BLOCK.c.reason).where(_BLOCK.c.digest == digest_of(reference))
    ).scalar_one_or_none()  # fmt: skip
    if reason is not None:
        raise ImageBlocked(reason)
