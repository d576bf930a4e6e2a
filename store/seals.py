"""Seals: the heads of all chains at a moment, under one signature."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlmodel import Session, col
from sqlmodel import select as select_rows

from domain.errors import NotFound
from domain.ledger import GENESIS, canonical_json
from domain.seals import SealedHead, due_moments, links_hash, path_to_root, seal_root
from store.base import table_of
from store.clock import now_us
from store.events import record
from store.paging import Position
from store.signing import Keyring
from store.tables import AuditEntry, LedgerEntry, Seal, SealHead

_ENTRY, _AUDIT = table_of(LedgerEntry), table_of(AuditEntry)


@dataclass(frozen=True, slots=True)
class Chains:
    """A kind of chains: where their entries stand."""

    kind: str
    owner: ColumnElement[str]
    seq: ColumnElement[int]
    hash: ColumnElement[str]
    at_us: ColumnElement[int]
    """When an entry was written."""

    def counts(self, session: Session, until_us: int) -> Mapping[str, int]:
        """How many entries of each chain were written before a moment, by owner."""
        query = select(self.owner, func.max(self.seq)).where(self.at_us < until_us).group_by(self.owner)
        return {str(owner): int(count) for owner, count in session.connection().execute(query)}

    def hashes(self, session: Session, owner: str, after: int, upto: int) -> Iterator[str]:
        """Those of an owner's entries after one place and up to another, in their order."""
        query = select(self.hash).where(self.owner == owner, self.seq > after, self.seq <= upto).order_by(self.seq)
        with session.connection().execute(query.execution_options(yield_per=1000)) as rows:
            yield from rows.scalars()


LEDGER = Chains("ledger", _ENTRY.c.tenant_id, _ENTRY.c.seq, _ENTRY.c.hash, _ENTRY.c.posted_us)
AUDIT = Chains("audit", _AUDIT.c.chain, _AUDIT.c.seq, _AUDIT.c.hash, _AUDIT.c.at_us)
SEALED = (LEDGER, AUDIT)
"""Every kind of chains that there is."""


def due(session: Session) -> list[int]:
    """The moments up to which seals are still to be made: midnights, UTC."""
    last = session.exec(select_rows(func.max(Seal.until_us))).one()
    return due_moments(last, now_us(session))


def make_seal(session: Session, keyring: Keyring, until_us: int, kinds: Sequence[Chains] = SEALED) -> Seal:
    """Seal what was written in each chain before that moment. A seal names the one before it, so that none is lost."""
    before = session.exec(select_rows(Seal).order_by(col(Seal.number).desc()).limit(1)).first()
    number = 1 if before is None else before.number + 1
    heads = _heads(session, kinds, until_us, 0 if before is None else before.number)
    document = {
        "kind": "corral.seal",
        "version": 1,
        "number": number,
        "until_us": until_us,
        "sealed_us": now_us(session),
        "root": seal_root(heads),
        "previous": GENESIS if before is None else document_hash(before.document),
        "key_id": keyring.key_id,
    }
    seal = Seal(number=number, until_us=until_us, document=canonical_json(document), signature=keyring.sign(document))
    session.add(seal)
    session.flush()
    for head in heads:
        session.add(SealHead(number=number, **asdict(head)))
    record(session, "ledger_sealed", text=f"seal {number} was made", data={"number": number, "until_us": until_us})
    return seal


def seals(session: Session, limit: int, start: Position | None) -> Sequence[Seal]:
    """All seals, the newest first; one more than `limit` if there are."""
    query = select_rows(Seal)
    if start is not None:
        query = query.where(Seal.number < start.key)
    return session.exec(query.order_by(col(Seal.number).desc()).limit(limit + 1)).all()


def proof(session: Session, number: int, chain: str) -> Mapping[str, object]:
    """A seal, one chain's head in it, and the way from there to what was signed.

    Raises:
        NotFound: there is no such seal.
    """
    seal = session.get(Seal, number)
    if seal is None:
        raise NotFound("seal")
    heads = heads_of(session, number)
    own = next((head for head in heads if head.chain == chain), None)
    return {
        "seal": json.loads(seal.document),
        "signature": seal.signature,
        "head": None if own is None else asdict(own),
        "path": [] if own is None else [asdict(step) for step in path_to_root(heads, chain)],
    }


def heads_of(session: Session, number: int) -> list[SealedHead]:
    """The heads in a seal, by chain."""
    rows = session.exec(select_rows(SealHead).where(SealHead.number == number).order_by(col(SealHead.chain)))
    return [SealedHead(row.chain, row.count, row.hash, row.links) for row in rows]


def not_stored(session: Session) -> Sequence[int]:
    """The numbers of seals whose copy outside was not written yet."""
    query = select_rows(Seal.number).where(col(Seal.stored_us).is_(None)).order_by(col(Seal.number))
    return session.exec(query).all()


def note_stored(session: Session, number: int) -> None:
    """The copy outside is written."""
    session.get_one(Seal, number).stored_us = now_us(session)


def copy_lines(session: Session, number: int, kinds: Sequence[Chains] = SEALED) -> Iterator[bytes]:
    """What is kept outside of the database: the seal, then each chain's head with the hashes that came since."""
    seal = session.get_one(Seal, number)
    yield _line({"seal": json.loads(seal.document), "signature": seal.signature})
    earlier = {head.chain: head.count for head in heads_of(session, number - 1)}
    for head in heads_of(session, number):
        hashes = hashes_of(session, head.chain, earlier.get(head.chain, 0), head.count, kinds)
        yield _line({**asdict(head), "hashes": list(hashes)})


def hashes_of(session: Session, chain: str, after: int, upto: int, kinds: Sequence[Chains] = SEALED) -> Iterator[str]:
    """The hashes of a chain's entries, by the chain's whole name."""
    kind, _, owner = chain.partition(":")
    found = next((each for each in kinds if each.kind == kind), None)
    return iter(()) if found is None else found.hashes(session, owner, after, upto)


def key_id(seal: Seal) -> str:
    """The key that signed it."""
    return str(json.loads(seal.document)["key_id"])


def document_hash(document: str) -> str:
    """By which the next seal names it."""
    return hashlib.sha256(document.encode("ascii")).hexdigest()


def _heads(session: Session, kinds: Sequence[Chains], until_us: int, before: int) -> list[SealedHead]:
    earlier = {head.chain: head.count for head in heads_of(session, before)}
    heads = []
    for kind in kinds:
        for owner, count in sorted(kind.counts(session, until_us).items()):
            chain = f"{kind.kind}:{owner}"
            after = min(earlier.get(chain, 0), count)
            (last,) = kind.hashes(session, owner, count - 1, count)
            heads.append(SealedHead(chain, count, last, links_hash(kind.hashes(session, owner, after, count))))
    return heads


def _line(content: Any) -> bytes:
    return canonical_json(content).encode("ascii") + b"\n"
