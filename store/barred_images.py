"""Images of which nothing starts now, with the reason that a waiting job is told."""

from collections.abc import Mapping

from sqlalchemy import select
from sqlmodel import Session

from domain.images import CheckState
from domain.scheduling import reasons
from domain.scheduling.snapshot import Reason
from store.base import table_of
from store.tables import ImageBlock, ImageCheck

_CHECK, _BLOCK = table_of(ImageCheck), table_of(ImageBlock)
_BLOCKS = select(_BLOCK.c.digest, _BLOCK.c.reason)
_CHECKS = select(_CHECK.c.reference, _CHECK.c.state, _CHECK.c.refusals, _CHECK.c.trouble).where(
    (_CHECK.c.state == CheckState.REFUSED.value)
    | ((_CHECK.c.state == CheckState.WAITING.value) & _CHECK.c.rule_id.is_not(None))
)
"""One that waits to be looked at may start, for each node's gate judges it anyway; not where a signature is asked."""


def barred_images(session: Session) -> Mapping[str, Reason]:
    """By reference, and by digest where that is blocked under every name."""
    found = {}
    for row in session.connection().execute(_CHECKS):
        is_refused = row.state == CheckState.REFUSED
        found[row.reference] = (
            reasons.image_refused(row.refusals) if is_refused else reasons.image_unchecked(row.trouble)
        )
    for digest, why in session.connection().execute(_BLOCKS):
        found[digest] = reasons.image_blocked(why)
    return found
