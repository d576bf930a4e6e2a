"""The ledger: entries appended to the tenant's chain, never changed; and the look back that proves it."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlalchemy import and_, func
from sqlmodel import Session, col, select

from domain.ledger import EMPTY, GENESIS, ChainEntry, ChainHead, Field, Flaw, chain_head, entry_hash, verify_chain
from domain.money import Cause, Interval, Posted, Posting, durations, rate_milli, settle
from store.clock import now_us
from store.holds import spend
from store.ids import new_id
from store.locks import lock_quotas
from store.prices import rates_of
from store.tables import Allocation, Attempt, Gpu, LedgerEntry, Node, Tenant

SEALS = frozenset({"hash", "prev_hash", "signature"})
"""What is made of an entry's fields, and so is none of them."""
AT_ONCE = 2000
"""Entries of a chain that are looked at together."""
POST_AFTER_US = 3_600_000_000
"""An allocation that is open for longer is posted in parts, so that the books are never more than an hour behind."""


def close_allocation(
    session: Session, allocation: Allocation, attempt: Attempt, parts: Sequence[Interval]
) -> list[LedgerEntry]:
    """Close the allocation after `parts`: post what is missing, and correct what was posted otherwise.

    Returns:
        The new lines; the caller counts them in the purses (`store.holds.spend`).
    """
    allocation.until_us = allocation.from_us + (parts[-1].until_us if parts else 0)
    lines = _post(session, allocation, attempt, parts)
    allocation.posted_until_us = allocation.until_us
    return lines


def post_open(session: Session) -> int:
    """Post the hours of allocations that are still open, never past the last acknowledged heartbeat.

    Returns:
        How many allocations were brought up to date.
    """
    open_ones = select(Allocation.tenant_id).where(col(Allocation.until_us).is_(None))
    lock_quotas(
        session, session.exec(open_ones).all()
    )  # as an end does: who ends one now is waited for, and read below
    now = now_us(session)
    rows = session.exec(
        select(Allocation, Attempt, Node)
        .join(Attempt, col(Attempt.id) == Allocation.attempt_id)
        .join(Node, col(Node.id) == Attempt.node_id)
        .where(col(Allocation.until_us).is_(None), col(Attempt.started_us).is_not(None))
        .order_by(col(Allocation.tenant_id), col(Allocation.id))
    ).all()
    posted = 0
    for allocation, attempt, node in rows:
        until_us = min(now, node.last_beat_us or 0)
        if attempt.started_us is None or until_us - allocation.posted_until_us < POST_AFTER_US:
            continue
        began = attempt.started_us - allocation.from_us
        parts = (Interval(Cause.PREPARING, 0, began), Interval(Cause.RUNNING, began, until_us - allocation.from_us))
        spend(session, attempt, _post(session, allocation, attempt, parts))
        allocation.posted_until_us = until_us
        posted += 1
    return posted


def entries_of_job(session: Session, job_id: str) -> list[LedgerEntry]:
    """The job's lines, in the order in which they were posted."""
    return list(session.exec(select(LedgerEntry).where(LedgerEntry.job_id == job_id).order_by(col(LedgerEntry.seq))))


def verify(session: Session, tenant_id: str) -> tuple[int, Flaw | None]:
    """How many entries the tenant's chain has, and its first flaw, if it has one; then up to there."""
    after, flaw, is_over = EMPTY, None, False
    while not is_over:
        rows, flaw, is_over = verify_piece(session, tenant_id, after, AT_ONCE)
        after = ChainHead(rows[-1].seq, rows[-1].hash) if rows else after
    return after.count, flaw


def verify_piece(
    session: Session, tenant_id: str, after: ChainHead, most: int
) -> tuple[Sequence[LedgerEntry], Flaw | None, bool]:
    """The next entries of the tenant's chain, the first flaw among them, and whether nothing more is to be read."""
    follows = and_(col(LedgerEntry.tenant_id) == col(Tenant.id), col(LedgerEntry.seq) > after.count)
    query = select(Tenant.chain_length, Tenant.chain_head, LedgerEntry).outerjoin(LedgerEntry, follows)
    query = query.where(Tenant.id == tenant_id).order_by(col(LedgerEntry.seq)).limit(most)
    found = session.exec(query).all()  # one statement, and so of one moment: between two, the chain could grow
    head = chain_head(found[0][0], found[0][1])
    rows = [entry for _, _, entry in found if entry is not None]
    is_last = len(rows) < most
    flaw = verify_chain(map(chain_entry, rows), head, after, is_to_end=is_last)
    return rows, flaw, is_last or flaw is not None


def _post(session: Session, allocation: Allocation, attempt: Attempt, parts: Sequence[Interval]) -> list[LedgerEntry]:
    posted = _posted(session, allocation.id)
    price, rates = allocation.price_micro_per_gpu_hour, rates_of(allocation.rates)
    lines = settle(durations(parts), posted, allocation.share_milli, price, rates)
    entries = []
    for line in lines:
        from_us, until_us = _span(line, allocation, parts)
        entries.append(
            LedgerEntry(
                id=new_id("ent"),
                tenant_id=allocation.tenant_id,
                seq=0,
                job_id=attempt.job_id,
                attempt_id=attempt.id,
                allocation_id=allocation.id,
                gpu_uuid=session.get_one(Gpu, allocation.gpu_id).uuid,
                model=allocation.model,
                cause=line.cause.value,
                kind=line.kind.value,
                from_us=from_us,
                until_us=until_us,
                duration_us=line.duration_us,
                share_milli=allocation.share_milli,
                price_micro_per_gpu_hour=price,
                rate_milli=rate_milli(line.cause, rates),
                cost_micro=line.cost_micro,
                posted_us=now_us(session),
                prev_hash="",
                hash="",
            )
        )
        append(session, entries[-1])
    return entries


def _posted(session: Session, allocation_id: str) -> Mapping[Cause, Posted]:
    rows = session.exec(
        select(LedgerEntry.cause, func.sum(LedgerEntry.duration_us), func.sum(LedgerEntry.cost_micro))
        .where(LedgerEntry.allocation_id == allocation_id)
        .group_by(col(LedgerEntry.cause))
    )
    return {Cause(cause): Posted(int(duration_us), int(cost)) for cause, duration_us, cost in rows}


def _span(line: Posting, allocation: Allocation, parts: Iterable[Interval]) -> tuple[int, int]:
    """Where the line lies in time: at the end of what its cause lasted, or before what was posted last."""
    ends = [allocation.from_us + part.until_us for part in parts if part.cause is line.cause]
    until_us = max(ends, default=allocation.posted_until_us)
    return until_us - abs(line.duration_us), until_us


def append(session: Session, entry: LedgerEntry, sign: Callable[[LedgerEntry], str] | None = None) -> None:
    """Add it to its tenant's chain, whose row is locked until the transaction's end.

    Args:
        sign: makes a signature of what has its place and its hash.
    """
    locked = select(Tenant).where(Tenant.id == entry.tenant_id).with_for_update(key_share=True)
    tenant = session.exec(locked.execution_options(populate_existing=True)).one()
    entry.seq = tenant.chain_length + 1
    entry.prev_hash = tenant.chain_head or GENESIS
    entry.hash = entry_hash(entry.prev_hash, sealed_fields(entry))
    entry.signature = None if sign is None else sign(entry)
    tenant.chain_length, tenant.chain_head = entry.seq, entry.hash
    session.add(entry)
    session.flush()


def sealed_fields(entry: LedgerEntry) -> dict[str, Field]:
    """What its hash is made of. What an entry does not say is left out, so that columns which came later do no harm."""
    return {name: value for name, value in entry.model_dump().items() if name not in SEALS and value is not None}


def chain_entry(row: LedgerEntry) -> ChainEntry:
    """The row, as the verifier reads it."""
    return ChainEntry(seq=row.seq, prev_hash=row.prev_hash, hash=row.hash, fields=sealed_fields(row))
