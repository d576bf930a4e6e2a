"""Lines of a ledger at any time, without the jobs' lives that would lead to them; and signing keys."""

from pathlib import Path
from typing import Any

from sqlmodel import Session, select

from domain.money import cost_micro
from store.clock import now_us
from store.ids import new_id
from store.ledger import append
from store.signing import Keyring, new_signing_key
from store.tables import LedgerEntry, Tenant

PRICE = 3_600_000


def a_line(session: Session, tenant_id: str, from_us: int, duration_us: int, **fields: Any) -> LedgerEntry:
    """One line of usage, at the end of the tenant's chain."""
    share = fields.pop("share_milli", 1000)
    values: dict[str, Any] = {
        "cause": "running",
        "kind": "usage",
        "gpu_uuid": "GPU-1",
        "model": "H100",
        "cost_micro": cost_micro(max(0, duration_us), share, PRICE),
        "posted_us": now_us(session),
    } | fields
    entry = LedgerEntry(
        id=new_id("ent"),
        tenant_id=tenant_id,
        seq=0,
        from_us=from_us,
        until_us=from_us + abs(duration_us),
        duration_us=duration_us,
        share_milli=share,
        price_micro_per_gpu_hour=PRICE,
        rate_milli=1000,
        prev_hash="",
        hash="",
        **values,
    )
    append(session, entry)
    return entry


def a_keyring(folder: Path) -> Keyring:
    """A signing key of the test's own."""
    return new_signing_key(folder / "signing.key")


def chains(session: Session) -> dict[str, int]:
    """How long each tenant's chain is."""
    return {tenant.id: tenant.chain_length for tenant in session.exec(select(Tenant))}
