"""Lists in pages. A cursor is bound to its list, its filters and whose key asked: elsewhere it is refused."""

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from corral.contract import Page
from fastapi import Depends, Query, Request
from pydantic import BaseModel

from api.auth import TenantCaller
from api.callers import Caller
from domain.errors import Invalid
from store.paging import Position

Row = TypeVar("Row")
View = TypeVar("View", bound=BaseModel)

LIMIT_MAX = 200
PAGE_BYTES_MAX = 4 * 2**20
"""A page ends before its limit once it holds so much: two hundred of the largest jobs would hold up everybody else."""
CURSOR_CHARACTERS_MAX = 400


class Paging:
    """The page that a request asks for."""

    def __init__(self, binding: str, limit: int, cursor: str | None) -> None:
        self.limit = limit
        self._binding = binding
        self.start = None if cursor is None else _decoded(cursor, binding)
        """The last row of the page before."""

    @property
    def start_name(self) -> str | None:
        """The same, for lists that are sorted by name alone."""
        return None if self.start is None else self.start.id

    def cursor(self, position: Position) -> str:
        """Where the next page of this list begins."""
        return _encoded(position, self._binding)

    def page(self, rows: Sequence[Row], view: Callable[[Row], View], position: Callable[[Row], Position]) -> Page[View]:
        """The page, of rows that are one more than the limit if another page follows."""
        items: list[View] = []
        size = 0
        for row in rows[: self.limit]:
            items.append(view(row))
            size += len(items[-1].model_dump_json().encode())
            if size > PAGE_BYTES_MAX:
                break
        following = self.cursor(position(rows[len(items) - 1])) if len(rows) > len(items) else None
        return Page(items=items, next=following)


async def _asked_page(
    request: Request,
    caller: TenantCaller,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 50,
    cursor: Annotated[str | None, Query(max_length=CURSOR_CHARACTERS_MAX)] = None,
) -> Paging:
    return Paging(_binding(request, caller), limit, cursor)


AskedPage = Annotated[Paging, Depends(_asked_page)]


def _binding(request: Request, caller: Caller) -> str:
    filters = sorted((k, v) for k, v in request.query_params.multi_items() if k not in ("limit", "cursor"))
    text = json.dumps([request.url.path, caller.name, filters])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _encoded(position: Position, binding: str) -> str:
    text = json.dumps([binding, position.key, position.id], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(cursor: str, binding: str) -> Position:
    """Refuse whatever this very list did not hand out. (A forged one would only move within the caller's own rows.)"""
    try:
        said = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        found, key, id = said
    except (ValueError, TypeError, RecursionError):
        raise Invalid("the cursor is not one of this list") from None
    is_whole = type(key) is int and abs(key) < 2**63 and type(id) is str and "\0" not in id and id.isascii()
    if found != binding or not is_whole:
        raise Invalid("the cursor is not one of this list")
    return Position(key, id)
