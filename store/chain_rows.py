"""The ledger in pages, for exports of any length: entries stay as they are, so a page begins after the one before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, literal, select, tuple_
from sqlmodel import Session
from sqlmodel import select as select_rows

from store.base import table_of
from store.tables import Attempt, Job, LedgerEntry, Tenant
from store.usage import Question, within

_ENTRY, _JOB, _ATTEMPT, _TENANT = (table_of(row) for row in (LedgerEntry, Job, Attempt, Tenant))
_WITH_JOB = (
    select(
        _ENTRY,
        _TENANT.c.name.label("tenant_name"),
        _JOB.c.name.label("job_name"),
        _JOB.c.image_name,
        _JOB.c.key_id,
        _JOB.c.member_id,
        _JOB.c.spec[("labels",)].label("labels"),
        _ATTEMPT.c.node_id,
    )
    .join(_TENANT, _TENANT.c.id == _ENTRY.c.tenant_id)
    .outerjoin(_JOB, _JOB.c.id == _ENTRY.c.job_id)
    .outerjoin(_ATTEMPT, _ATTEMPT.c.id == _ENTRY.c.attempt_id)
)


@dataclass(frozen=True, slots=True)
class Reached:
    """The last entry that was read."""

    tenant_id: str = ""
    seq: int = 0


def entries_with_jobs(
    session: Session, question: Question, reached: Reached, until_posted_us: int, limit: int
) -> Sequence[Row[Any]]:
    """The next entries in the window, by tenant and place, with what their jobs and tenants tell."""
    place = tuple_(_ENTRY.c.tenant_id, _ENTRY.c.seq) > tuple_(literal(reached.tenant_id), literal(reached.seq))
    query = _WITH_JOB.where(place, _ENTRY.c.posted_us <= until_posted_us, *within(question))
    return session.connection().execute(query.order_by(_ENTRY.c.tenant_id, _ENTRY.c.seq).limit(limit)).all()


def chain(session: Session, tenant_id: str, after_seq: int, limit: int) -> Sequence[LedgerEntry]:
    """The next entries of a tenant's chain."""
    query = select_rows(LedgerEntry).where(LedgerEntry.tenant_id == tenant_id, LedgerEntry.seq > after_seq)
    return session.exec(query.order_by(_ENTRY.c.seq).limit(limit)).all()


def roots(session: Session) -> dict[str, tuple[str, str]]:
    """The id and the name of the organisation at the top of each tenant's tree."""
    query = select(_TENANT.c.id, _TENANT.c.name, _TENANT.c.parent_id)
    rows = {row.id: row for row in session.connection().execute(query)}
    found = {}
    for tenant_id, top in rows.items():
        while top.parent_id is not None:
            top = rows[top.parent_id]
        found[tenant_id] = (top.id, top.name)
    return found
