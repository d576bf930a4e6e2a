"""Whether keys still count as they did when they were looked at: one statement for many of them.

To be asked in the transaction of a change whose caller was found out in an earlier one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, literal, select
from sqlmodel import Session

from store.base import table_of
from store.statements import Query, take_steps
from store.tables import ApiKey, Member

_KEY, _MEMBER = table_of(ApiKey), table_of(Member)
_UP = (
    select(_KEY.c.prefix.label("leaf"), _KEY.c.id, _KEY.c.parent_key_id, literal(0).label("steps"))
    .where(_KEY.c.prefix.in_(bindparam("of", expanding=True)))
    .cte("up", recursive=True)
)
_UP = _UP.union_all(
    select(_UP.c.leaf, _KEY.c.id, _KEY.c.parent_key_id, _UP.c.steps + 1).join(_KEY, _KEY.c.id == _UP.c.parent_key_id)
)
_DECISIVE = [column for column in _KEY.c if column.name != "last_used_us"]
_CHAINS = (
    select(_UP.c.leaf, _MEMBER.c.state.label("member_state"), _MEMBER.c.role.label("member_role"), *_DECISIVE)
    .select_from(_UP.join(_KEY, _KEY.c.id == _UP.c.id).outerjoin(_MEMBER, _MEMBER.c.id == _KEY.c.member_id))
    .order_by(_UP.c.leaf, _UP.c.steps)
)


@dataclass(frozen=True, slots=True)
class Witness:
    """All that decides what a key may do, but for its tenant's state: its rows, those above it, and their members."""

    rows: tuple[tuple[Any, ...], ...]
    until_us: int | None
    """When the first of the chain expires."""


def prefix_of(token: str) -> str:
    """By which the row of a key is found: the middle of `corral_<prefix>_<secret>`."""
    return [*token.split("_", 2), "", ""][1]


def witnesses(session: Session, prefixes: Collection[str]) -> dict[str, Witness]:
    """What is to be seen of these keys now. Nothing but equality says that one counts as it did."""
    found: dict[str, list[Any]] = {}
    known = sorted(filter(str.isascii, prefixes))
    for row in take_steps(session, Query(_CHAINS, {"of": known}))[0].found if known else ():
        found.setdefault(row.leaf, []).append(row)
    return {
        prefix: Witness(
            tuple(tuple(row) for row in rows),
            min((row.expires_us for row in rows if row.expires_us is not None), default=None),
        )
        for prefix, rows in found.items()
    }
