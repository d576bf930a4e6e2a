"""Receipts: a job's lines of the ledger and their place in the tenant's chain, to be signed."""

from collections.abc import Mapping

from sqlmodel import Session

from domain.ids import TenantId
from domain.states import JobState
from store.clock import now_us
from store.jobs import find
from store.ledger import entries_of_job, sealed_fields
from store.tables import LedgerEntry, Tenant


def receipt(session: Session, scope: TenantId | None, job_id: str, key_id: str) -> dict[str, object]:
    """What the key `key_id` is to sign. A job without GPUs, or not started yet, has a receipt of no lines.

    Raises:
        NotFound: there is no such job, or it is another tenant's.
    """
    job = find(session, scope, job_id)
    entries = entries_of_job(session, job_id)
    tenant = session.get_one(Tenant, job.tenant_id)
    by_cause = _sums(entries)
    return {
        "kind": "corral.receipt",
        "version": 1,
        "tenant_id": job.tenant_id,
        "job_id": job_id,
        "job_state": job.state,
        "is_final": JobState(job.state).is_terminal,
        "issued_us": now_us(session),
        "entries": [link(entry) for entry in entries],
        "gpu_us_milli": sum(each["gpu_us_milli"] for each in by_cause.values()),
        "cost_micro": sum(each["cost_micro"] for each in by_cause.values()),
        "by_cause": by_cause,
        "chain_length": tenant.chain_length,
        "chain_head": tenant.chain_head,
        "key_id": key_id,
    }


def link(entry: LedgerEntry) -> Mapping[str, object]:
    """An entry as a link of its chain."""
    return {"seq": entry.seq, "prev_hash": entry.prev_hash, "hash": entry.hash, "fields": sealed_fields(entry)}


def _sums(entries: list[LedgerEntry]) -> dict[str, dict[str, int]]:
    sums: dict[str, dict[str, int]] = {}
    for entry in entries:
        of = sums.setdefault(entry.cause, {"gpu_us_milli": 0, "cost_micro": 0})
        of["gpu_us_milli"] += entry.duration_us * entry.share_milli
        of["cost_micro"] += entry.cost_micro
    return sums
