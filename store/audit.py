"""Who changed what: entries in hash chains, one for each tenant and one for the platform, with the change itself.

What happens in a transaction is noted with `append`, and written by `write_pending` as the last thing before the
commit: so a change that fails leaves no entry, and chains are locked last, and in one order.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Label, bindparam, literal_column, select, update
from sqlmodel import Session

from domain.ids import TenantId
from domain.ledger import GENESIS, Field, entry_hash
from store.base import table_of
from store.ids import id_at
from store.statements import Query, Rows, take_steps
from store.tables import ApiKey, AuditChain, AuditEntry, Job, QuotaRequest, Webhook
from store.tenants import below

PLATFORM = "platform"
"""The chain of what concerns no one tenant, and of whatever the platform's staff does."""
_PENDING = "audit_pending"
_RANDOM_BITS = 40
"""Of an id, below the entry's place in its chain: those of one moment sort by their place."""

_ENTRY, _CHAIN = table_of(AuditEntry), table_of(AuditChain)
_NOW: Label[int] = literal_column("(extract(epoch FROM clock_timestamp()) * 1000000)::bigint").label("at_us")
_IS_IT = _CHAIN.c.chain == bindparam("of")
_HOLD = select(_CHAIN.c.length, _CHAIN.c.head).where(_IS_IT)
_HOLD_AND_TIME = _HOLD.add_columns(_NOW).with_for_update()
_MOVE = update(_CHAIN).where(_IS_IT).values(length=bindparam("new_length"), head=bindparam("new_head"))
_OWNERS = {
    prefix: select(table_of(row).c.tenant_id).where(table_of(row).c.id == bindparam("of"))
    for prefix, row in (("job", Job), ("key", ApiKey), ("whk", Webhook), ("ask", QuotaRequest))
}
"""By an id's prefix: whose the thing is."""


@dataclass(frozen=True, slots=True)
class Change:
    """What somebody did, or the system by itself."""

    chain: str
    """A tenant's id, or `PLATFORM`."""
    what: str
    owned: str = ""
    """A thing that a tenant owns: the change then belongs to that tenant's chain."""
    is_staff: bool = False
    """Made by the platform's staff: it stands in the platform's chain too, and only there with its address."""
    actor: str = "system"
    role: str = "system"
    member_id: str | None = None
    path: str = ""
    target: str = ""
    status: int = 0
    request_id: str = ""
    address: str = ""
    changes: str = "{}"
    """A JSON object."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries are asked for; None asks for all."""

    actor: str | None = None
    what: str | None = None
    target: str | None = None
    since_us: int | None = None
    until_us: int | None = None


def append(session: Session, change: Change) -> None:
    """Let the change be written down in this transaction, at its end.

    The transaction must be one of `store.engine.writing`, or its owner must call `write_pending` before it commits.
    """
    session.info.setdefault(_PENDING, []).append(change)


def write_pending(session: Session) -> None:
    """Write what was noted. Called last before a commit."""
    append_many(session, session.info.pop(_PENDING, ()))


def append_many(session: Session, changes: Sequence[Change]) -> None:
    """Write the changes: two statements for each chain and one for all, however many there are. Locks the chains."""
    in_chain = attrgetter("chain")
    placed = [each for change in changes for each in _placed(session, change)]
    grouped = {chain: list(group) for chain, group in groupby(sorted(placed, key=in_chain), key=in_chain)}
    if not grouped:
        return
    moves: list[Query] = []
    rows: list[Mapping[str, Field]] = []
    for (chain, group), (length, head, at_us) in zip(grouped.items(), _held(session, list(grouped)), strict=True):
        sealed = _sealed(chain, group, length, head, at_us)
        rows += sealed
        values = {"of": chain, "new_length": sealed[-1]["seq"], "new_head": sealed[-1]["hash"]}
        moves.append(Query(_MOVE, values))
    take_steps(session, *moves, Rows(_ENTRY, rows))


def entries(
    session: Session, scope: TenantId | None, asked: AuditFilter, limit: int, start_id: str | None
) -> Sequence[Any]:
    """Rows of the chains of the tenant and those below it (None: of all), newest first; one more than `limit`."""
    query = select(_ENTRY)
    if scope is not None:
        query = query.where(_ENTRY.c.chain.in_(sorted(below(session, scope))))
    for column in ("actor", "what", "target"):
        if (value := getattr(asked, column)) is not None:
            query = query.where(_ENTRY.c[column] == value)
    if asked.since_us is not None:
        query = query.where(_ENTRY.c.id >= id_at("aud", asked.since_us))
    if asked.until_us is not None:
        query = query.where(_ENTRY.c.id < id_at("aud", asked.until_us))
    if start_id is not None:
        query = query.where(_ENTRY.c.id < start_id)
    return session.connection().execute(query.order_by(_ENTRY.c.id.desc()).limit(limit + 1)).all()


def _placed(session: Session, change: Change) -> list[Change]:
    """The change, in each chain to which it belongs."""
    owner = _owner(session, change.owned)
    if owner is not None:
        change = replace(change, chain=owner)
    if not change.is_staff or change.chain == PLATFORM:
        return [change]
    return [replace(change, address=""), replace(change, chain=PLATFORM)]


def _owner(session: Session, id: str) -> str | None:
    query = _OWNERS.get(id.partition("_")[0])
    return None if query is None else session.connection().execute(query, {"of": id}).scalar()


def _sealed(chain: str, changes: Sequence[Change], length: int, head: str, at_us: int) -> list[Mapping[str, Field]]:
    """The rows of these changes, linked to the chain's head and to each other."""
    rows: list[Mapping[str, Field]] = []
    for change in changes:
        length += 1
        fields: dict[str, Field] = {
            "id": id_at("aud", at_us, length << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)),
            "chain": chain,
            "seq": length,
            "at_us": at_us,
            "actor": change.actor,
            "member_id": change.member_id,
            "role": change.role,
            "what": change.what,
            "path": change.path,
            "target": change.target,
            "status": change.status,
            "request_id": change.request_id,
            "address": change.address,
            "changes": change.changes,
        }
        sealed = entry_hash(head, fields)
        rows.append({**fields, "prev_hash": head, "hash": sealed})
        head = sealed
    return rows


def _held(session: Session, chains: Sequence[str]) -> list[tuple[int, str, int]]:
    """Each chain's length and head, locked, and the time, read under the lock: it never runs back in a chain.

    Those that are missing are begun before any is locked, so that all are locked in one order.
    """
    is_postgres = session.get_bind().dialect.name == "postgresql"
    begun = Rows(_CHAIN, [{"chain": chain, "length": 0, "head": ""} for chain in chains], or_nothing=True)
    holds = [Query(_HOLD_AND_TIME if is_postgres else _HOLD, {"of": chain}) for chain in chains]
    rows = [each.found[0] for each in take_steps(session, begun, *holds)[1:]]
    return [(row.length, row.head or GENESIS, row.at_us if is_postgres else time.time_ns() // 1000) for row in rows]
