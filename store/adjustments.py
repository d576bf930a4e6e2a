"""Credits and debits by admins: an entry of money alone, under the server's signature."""

from collections.abc import Mapping, Sequence

from sqlmodel import Session, col, select

from domain.errors import NotFound
from domain.ids import TenantId
from domain.money import EntryKind
from store import purses
from store.clock import now_us
from store.events import record
from store.ids import new_id
from store.ledger import append
from store.locks import lock_quotas
from store.paging import Position, after
from store.signing import Keyring
from store.tables import Job, LedgerEntry, Tenant


def adjust(
    session: Session,
    keyring: Keyring,
    tenant_id: TenantId,
    amount_micro: int,
    reason: str,
    by_key_id: str,
    job_id: str | None = None,
) -> LedgerEntry:
    """Credit (a negative amount) or debit the tenant, at this moment; perhaps for one of its jobs.

    Raises:
        NotFound: there is no such tenant, or no such job of it.
    """
    if session.get(Tenant, tenant_id) is None:
        raise NotFound("tenant")
    if job_id is not None and session.exec(select(Job.tenant_id).where(Job.id == job_id)).first() != tenant_id:
        raise NotFound("job")
    lock_quotas(session, [tenant_id])
    now = now_us(session)
    entry = LedgerEntry(
        id=new_id("ent"),
        tenant_id=tenant_id,
        seq=0,
        job_id=job_id,
        cause=EntryKind.ADJUSTMENT.value,
        kind=EntryKind.ADJUSTMENT.value,
        from_us=now,
        until_us=now,
        duration_us=0,
        share_milli=0,
        price_micro_per_gpu_hour=0,
        cost_micro=amount_micro,
        posted_us=now,
        reason=reason,
        by_key_id=by_key_id,
        signing_key_id=keyring.key_id,
        prev_hash="",
        hash="",
    )
    append(session, entry, lambda made: keyring.sign(signed_part(made)))
    purses.adjust(session, tenant_id, amount_micro, now)
    record(
        session,
        "ledger_adjusted",
        tenant_id=tenant_id,
        job_id=job_id,
        text=f"an admin {'credited' if amount_micro < 0 else 'debited'} the tenant: {reason}",
        data={"entry_id": entry.id, "amount_micro": amount_micro},
    )
    return entry


def adjustments(session: Session, scope: TenantId | None, limit: int, start: Position | None) -> Sequence[LedgerEntry]:
    """All of a tenant, or of all tenants, the newest first; one more than `limit` if there are."""
    query = select(LedgerEntry).where(LedgerEntry.kind == EntryKind.ADJUSTMENT.value)
    if scope is not None:
        query = query.where(LedgerEntry.tenant_id == scope)
    if start is not None:
        query = query.where(after(start, col(LedgerEntry.posted_us), col(LedgerEntry.id)))
    query = query.order_by(col(LedgerEntry.posted_us).desc(), col(LedgerEntry.id).desc())
    return session.exec(query.limit(limit + 1)).all()


def signed_part(entry: LedgerEntry) -> Mapping[str, object]:
    """What the server signs of an adjustment: the hash binds every field and its place in the chain."""
    return {"kind": "corral.adjustment", "version": 1, "hash": entry.hash, "key_id": entry.signing_key_id}
