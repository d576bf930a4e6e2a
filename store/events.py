"""What happened, written in the transaction in which it happened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmodel import Session

from store.base import table_of
from store.clock import now_us
from store.statements import Rows, take_steps
from store.tables import Event
from store.webhooks import publish

_EVENT = table_of(Event)


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that happened. `text` is a sentence for the tenant; nothing of other tenants belongs in it."""

    what: str
    tenant_id: str | None = None
    job_id: str | None = None
    attempt_id: str | None = None
    node_id: str | None = None
    gpu_id: str | None = None
    fence: int | None = None
    text: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


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
    """Add an event; see `Happened`."""
    one = Happened(what, tenant_id, job_id, attempt_id, node_id, gpu_id, fence, text, dict(data or {}))
    record_all(session, [one], now_us(session))


def record_all(session: Session, happened: Sequence[Happened], at_us: int) -> None:
    """Add events of one moment, in one statement; webhooks that ask for them are told."""
    if happened:
        take_steps(session, told(session, happened, at_us))


def told(session: Session, happened: Sequence[Happened], at_us: int) -> Rows:
    """The rows of events of one moment, to be written; webhooks that ask for them are told."""
    rows = [_row(each, at_us) for each in happened]
    publish(session, rows)
    return Rows(_EVENT, rows)


def _row(happened: Happened, at_us: int) -> Mapping[str, Any]:
    return {
        "at_us": at_us,
        "what": happened.what,
        "tenant_id": happened.tenant_id,
        "job_id": happened.job_id,
        "attempt_id": happened.attempt_id,
        "node_id": happened.node_id,
        "gpu_id": happened.gpu_id,
        "fence": happened.fence,
        "text": happened.text,
        "data": happened.data,
    }
