"""What happened, written in the transaction in which it happened."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert
from sqlmodel import Session

from store.base import table_of
from store.clock import now_us
from store.tables import Event

_ADD = insert(table_of(Event))


def record(
    session: Session,
    what: str,
    *,
    tenant_id: str | None = None,
    job_id: str | None = None,
    attempt_id: str | None = None,
    node_id: str | None = None,
    gpu_id: str | None = None,
    fence: int | None = None,
    text: str = "",
    data: Mapping[str, Any] | None = None,
) -> None:
    """Add an event. `text` is a sentence for the tenant; nothing of other tenants belongs in it."""
    session.connection().execute(
        _ADD,
        {
            "at_us": now_us(session),
            "what": what,
            "tenant_id": tenant_id,
            "job_id": job_id,
            "attempt_id": attempt_id,
            "node_id": node_id,
            "gpu_id": gpu_id,
            "fence": fence,
            "text": text,
            "data": dict(data or {}),
        },
    )
