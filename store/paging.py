"""Where a page of a list begins: after the last row of the one before, in an order that new rows do not shift."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, or_


@dataclass(frozen=True, slots=True)
class Position:
    """The sort key of a row, and its id, which breaks ties."""

    key: int
    id: str


def after(start: Position, key: Any, id: Any) -> ColumnElement[bool]:
    """Rows that come after `start`, newest first."""
    return or_(key < start.key, and_(key == start.key, id < start.id))
