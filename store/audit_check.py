"""Whether the audit's chains are whole: looked at in pieces, so that neither time nor memory grow with their length."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, bindparam, func, select
from sqlmodel import Session

from domain.ids import TenantId
from domain.ledger import EMPTY, ChainEntry, ChainHead, Flaw, chain_head, verify_chain
from store.base import table_of
from store.tables import AuditChain, AuditEntry
from store.tenants import below

AT_ONCE = 5000
"""Entries that one call looks at, at most."""
_NO_FIELDS = frozenset({"prev_hash", "hash", "head_count", "head_hash"})

_ENTRY, _CHAIN = table_of(AuditEntry), table_of(AuditChain)
_NAMED = select(bindparam("of").label("chain")).subquery()
_WITH_HEAD = _NAMED.outerjoin(_CHAIN, _CHAIN.c.chain == bindparam("of")).outerjoin(
    _ENTRY, and_(_ENTRY.c.chain == bindparam("of"), _ENTRY.c.seq > bindparam("seq"))
)
_NEXT = tuple(select(func.min(table.c.chain)).where(table.c.chain > bindparam("name")) for table in (_ENTRY, _CHAIN))
"""One whose head was removed is found among the entries."""
_PIECE = (
    select(*_ENTRY.c, _CHAIN.c.length.label("head_count"), _CHAIN.c.head.label("head_hash"))
    .select_from(_WITH_HEAD)
    .order_by(_ENTRY.c.seq)
    .limit(bindparam("most"))
)
"""One statement, and so of one moment: between two, the chain could grow. Without an entry, a row of the head alone."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What was looked at: all chains before this one by name, and of this one all up to an entry, or all of it."""

    chain: str
    upto: ChainHead | None
    """None for all of it."""


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """What was found in a chain, from the place where the last call ended."""

    chain: str
    length: int
    """As its head says."""
    head: str
    upto: ChainHead
    """The last entry that was looked at."""
    flaw: Flaw | None


def verify(
    session: Session, scope: TenantId | None, reached: Reached | None, most_chains: int, most_entries: int = AT_ONCE
) -> tuple[list[ChainCheck], Reached | None]:
    """The next chains of the tenant and those below it (None: of all there are), each with its first flaw.

    Returns:
        What was found, and where the next call goes on; None if that was all.
    """
    found: list[ChainCheck] = []
    left = most_entries
    for chain in _chains(session, scope, reached):
        if len(found) == most_chains or left <= 0:
            return found, Reached(found[-1].chain, None)
        after = reached.upto if reached and reached.chain == chain and reached.upto else EMPTY
        check, is_over = _piece(session, chain, after, left)
        found.append(check)
        if not is_over:
            return found, Reached(chain, check.upto)
        left -= check.upto.count - after.count
    return found, None


def all_checks(session: Session, scope: TenantId | None = None) -> Iterator[ChainCheck]:
    """Every chain to its end or its first flaw, for an operator who waits for all of it; a chain may come in pieces."""
    found, reached = verify(session, scope, None, AT_ONCE)
    yield from found
    while reached is not None:
        found, reached = verify(session, scope, reached, AT_ONCE)
        yield from found


def _chains(session: Session, scope: TenantId | None, reached: Reached | None) -> Iterator[str]:
    """Names in their order, from where the last call ended."""
    is_begun = reached is not None and reached.upto is not None
    if reached is not None and is_begun and (scope is None or reached.chain in below(session, scope)):
        yield reached.chain
    last = "" if reached is None else reached.chain
    if scope is not None:
        yield from sorted(each for each in below(session, scope) if each > last)
        return
    while (following := _following(session, last)) is not None:
        yield following
        last = following


def _following(session: Session, name: str) -> str | None:
    connection = session.connection()
    names = (connection.scalar(query, {"name": name}) for query in _NEXT)
    return min((each for each in names if each is not None), default=None)


def _piece(session: Session, chain: str, after: ChainHead, most: int) -> tuple[ChainCheck, bool]:
    """What is wrong in the next entries of a chain, and whether nothing more is to be looked at."""
    found = session.connection().execute(_PIECE, {"of": chain, "seq": after.count, "most": most}).all()
    head = chain_head(found[0].head_count, found[0].head_hash)
    rows = [row for row in found if row.seq is not None]
    is_last = len(rows) < most
    flaw = verify_chain(map(_entry, rows), head, after, is_to_end=is_last)
    upto = ChainHead(rows[-1].seq, rows[-1].hash) if rows else after
    return ChainCheck(chain, head.count, head.hash, upto, flaw), is_last or flaw is not None


def _entry(row: Any) -> ChainEntry:
    fields = {name: value for name, value in row._mapping.items() if name not in _NO_FIELDS}
    return ChainEntry(seq=row.seq, prev_hash=row.prev_hash, hash=row.hash, fields=fields)
