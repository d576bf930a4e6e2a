"""What a node has of images and what it should do about them, told with its heartbeat."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, tuple_
from sqlmodel import Session

from domain.images import SignatureRule
from domain.levels import ImageKind, Level, runs_at
from store.base import table_of
from store.image_checks import take_checks
from store.tables import ImageWish, Node

_WISH = table_of(ImageWish)


@dataclass(frozen=True, slots=True)
class ImageTask:
    """An image to be pulled before a job needs it, or to be looked at for the catalogue."""

    reference: str
    is_to_check: bool
    rule: SignatureRule | None


def exchange(session: Session, node_id: str, held: Sequence[Mapping[str, Any]]) -> list[ImageTask]:
    """Take down what a node's worker has pulled or is pulling, and give it what there is to do.

    Call it after the heartbeat has locked the node's row.
    """
    node = session.get_one(Node, node_id)
    if node.images != (news := [dict(each) for each in held]):
        node.images = news
    if not any(runs_at(ImageKind.ENGINE, Level(level)) for level in node.levels):
        return []
    wanted = session.connection().execute(
        select(_WISH.c.reference).where(_WISH.c.node_id == node_id).order_by(_WISH.c.reference)
    ).scalars()  # fmt: skip
    checks = [ImageTask(reference, True, rule) for reference, rule in take_checks(session, node_id)]
    return checks + [ImageTask(reference, False, None) for reference in wanted]


def wishes(session: Session) -> set[tuple[str, str]]:
    """What nodes should have soon: node and reference."""
    return {(row.node_id, row.reference) for row in session.connection().execute(select(_WISH))}


def set_wishes(session: Session, wanted: Collection[tuple[str, str]]) -> None:
    """What nodes should have soon, from now on."""
    before = wishes(session)
    if gone := sorted(before - set(wanted)):
        session.connection().execute(delete(_WISH).where(tuple_(_WISH.c.node_id, _WISH.c.reference).in_(gone)))
    if new := sorted(set(wanted) - before):
        session.connection().execute(insert(_WISH), [{"node_id": node, "reference": image} for node, image in new])
