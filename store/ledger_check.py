"""Checks chains against themselves, against every seal, and against the seals' copies outside of the database."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from sqlmodel import Session, col, select

from domain.ledger import EMPTY, GENESIS, ChainHead, Flaw, Tampering
from domain.money import EntryKind
from domain.seals import SealedHead, links_hash, seal_root
from store.adjustments import signed_part
from store.audit_check import all_checks
from store.ledger import AT_ONCE, verify_piece
from store.seal_files import SealFiles
from store.seals import document_hash, hashes_of, heads_of
from store.signing import Keyring
from store.tables import LedgerEntry, Seal, SealHead, Tenant


@dataclass(frozen=True, slots=True)
class ChainFound:
    """What the verifier found in a tenant's chain, from the place where it began."""

    upto: ChainHead
    """The last entry that was looked at."""
    seals: int
    """With how many seals that was compared."""
    flaw: Flaw | None
    """The first one."""
    is_over: bool
    """Whether nothing more is to be looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not hold: of a chain, with its first bad entry, or of a seal."""

    where: str
    seq: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class SealCopy:
    """A seal as it lies outside, with the hashes that it covers beyond the one before."""

    document: str
    signature: str
    heads: Sequence[SealedHead]
    hashes: dict[str, Sequence[str]]


def check_tenant(session: Session, tenant_id: str, keyring: Keyring | None, at_once: int = AT_ONCE) -> ChainFound:
    """The first flaw of a tenant's chain, by itself, its adjustments' signatures and the seals in the database."""
    found = check_piece(session, tenant_id, keyring, EMPTY, at_once)
    seals = found.seals
    while not found.is_over:
        found = check_piece(session, tenant_id, keyring, found.upto, at_once)
        seals += found.seals
    return replace(found, seals=seals)


def check_piece(
    session: Session, tenant_id: str, keyring: Keyring | None, after: ChainHead, most: int = AT_ONCE
) -> ChainFound:
    """The same of the next entries after the last that was looked at."""
    rows, flaw, is_over = verify_piece(session, tenant_id, after, most)
    upto = ChainHead(rows[-1].seq, rows[-1].hash) if rows else after
    flaws = [flaw, None if keyring is None else _unsigned(rows, keyring)]
    chain = f"ledger:{tenant_id}"
    query = select(SealHead).where(SealHead.chain == chain, SealHead.count > after.count)
    if not is_over:
        query = query.where(SealHead.count <= upto.count)
    heads = session.exec(query.order_by(col(SealHead.number))).all()
    flaws.extend(_against_head(session, SealedHead(row.chain, row.count, row.hash, row.links)) for row in heads)
    found = [each for each in flaws if each is not None]
    return ChainFound(upto, len(heads), min(found, key=lambda each: each.seq, default=None), is_over or bool(found))


def check_everything(session: Session, keyring: Keyring, files: SealFiles | None) -> list[Finding]:
    """Everything that does not hold: at most one finding for each chain, its first, and whatever is wrong with seals.

    A database that was rewritten as a whole agrees with itself; it disagrees with the copies outside, which name the
    first entry that is another one.
    """
    first: dict[str, Finding] = {}
    findings: list[Finding] = []
    for tenant_id in session.exec(select(Tenant.id).order_by(col(Tenant.id))).all():
        _note(first, f"ledger:{tenant_id}", check_tenant(session, tenant_id, keyring).flaw)
    for check in all_checks(session):
        _note(first, f"audit:{check.chain}", check.flaw)
    seals = {seal.number: seal for seal in session.exec(select(Seal)).all()}
    kept = frozenset() if files is None else files.numbers()
    previous, counts = GENESIS, dict[str, int]()
    for number in range(1, max((*seals, *kept), default=0) + 1):
        where = f"seal {number}"
        inside = seals.get(number)
        if inside is None:
            findings.append(Finding(where, None, "it is missing in the database"))
        copy = _copy(files, number, findings) if files is not None and number in kept else None
        if files is not None and copy is None and inside is not None and inside.stored_us is not None:
            findings.append(Finding(where, None, "its copy outside is missing or broken"))
        seal = copy or (None if inside is None else _from_database(session, inside))
        if seal is None:
            continue
        if copy is not None and inside is not None and copy.document != inside.document:
            findings.append(Finding(where, None, "the database holds another one than was kept outside"))
        findings.extend(Finding(where, None, problem) for problem in _problems(seal, keyring, previous))
        previous = document_hash(seal.document)
        for head in seal.heads:
            flaw = _against_copy(session, head, seal.hashes.get(head.chain), counts.get(head.chain, 0))
            _note(first, head.chain, flaw)
            counts[head.chain] = head.count
    return [*findings, *first.values()]


def _copy(files: SealFiles, number: int, findings: list[Finding]) -> SealCopy | None:
    try:
        top, *rows = files.lines(number)
        heads = [SealedHead(row["chain"], row["count"], row["hash"], row["links"]) for row in rows]
        hashes = {row["chain"]: row["hashes"] for row in rows}
        for head in heads:
            if links_hash(hashes[head.chain]) != head.links:
                findings.append(Finding(f"seal {number}", None, f"its copy holds other hashes of {head.chain}"))
        document = json.dumps(top["seal"], sort_keys=True, separators=(",", ":"))
        return SealCopy(document, top["signature"], heads, hashes)
    except (KeyError, TypeError, ValueError, OSError):
        return None


def _from_database(session: Session, seal: Seal) -> SealCopy:
    return SealCopy(seal.document, seal.signature, heads_of(session, seal.number), {})


def _problems(seal: SealCopy, keyring: Keyring, previous: str) -> Iterator[str]:
    document = json.loads(seal.document)
    if not keyring.is_signed(document, seal.signature):
        yield f"the key {document.get('key_id')} is unknown, or did not sign it"
    if document.get("root") != seal_root(seal.heads):
        yield "its heads are not those that were signed"
    if document.get("previous") != previous:
        yield "it follows another seal than the one before it"


def _against_head(session: Session, head: SealedHead) -> Flaw | None:
    """Whether the entry that was sealed as the head is still that one."""
    found = next(iter(list(hashes_of(session, head.chain, head.count - 1, head.count))), None)
    if found == head.hash:
        return None
    if found is None:
        return Flaw(head.count, Tampering.TRUNCATED, f"entry {head.count} was sealed and is missing")
    problem = f"entry {head.count}, or one before it, is not the one that was sealed"
    return Flaw(head.count, Tampering.REWRITTEN, problem)


def _against_copy(session: Session, head: SealedHead, hashes: Sequence[str] | None, after: int) -> Flaw | None:
    """The first entry since the seal before that is not the one that was sealed."""
    if hashes is None:
        return _against_head(session, head)
    present = hashes_of(session, head.chain, after, head.count)
    for seq, (sealed, found) in enumerate(zip_longest(hashes, present), after + 1):
        if found is None:
            return Flaw(seq, Tampering.DELETED, f"entry {seq} was sealed and is missing")
        if found != sealed:
            return Flaw(seq, Tampering.REWRITTEN, f"entry {seq} is not the one that was sealed")
    return None


def _unsigned(entries: Sequence[LedgerEntry], keyring: Keyring) -> Flaw | None:
    """The first adjustment among them that the server did not sign."""
    for entry in entries:
        is_adjustment = entry.kind == EntryKind.ADJUSTMENT
        if is_adjustment and not keyring.is_signed(signed_part(entry), entry.signature or ""):
            return Flaw(entry.seq, Tampering.EDITED, f"entry {entry.seq} is an adjustment that the server never signed")
    return None


def _note(first: dict[str, Finding], chain: str, flaw: Flaw | None) -> None:
    earlier = first.get(chain)
    if flaw is not None and (earlier is None or earlier.seq is None or flaw.seq < earlier.seq):
        first[chain] = Finding(chain, flaw.seq, flaw.problem)
