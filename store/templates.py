"""Templates: parts of jobs that a tenant keeps under names of its own."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, func, select

from domain.errors import Limit, NotFound
from domain.ids import TenantId
from store.clock import now_us
from store.events import record
from store.tables import JobTemplate

TEMPLATES_MAX = 1000
"""Of one tenant."""


def put_template(session: Session, tenant_id: TenantId, name: str, fields: Mapping[str, Any]) -> JobTemplate:
    """Keep these fields under the name, as a version of its own; the same fields once more change nothing.

    Raises:
        Limit: the tenant has as many as it may.
    """
    found = session.get(JobTemplate, (tenant_id, name), with_for_update=True)
    if found is not None and not found.is_deleted and found.fields == dict(fields):
        return found
    if found is None or found.is_deleted:
        _check_count(session, tenant_id)
    if found is None:
        found = JobTemplate(tenant_id=tenant_id, name=name, version=0, fields={}, changed_us=0)
        session.add(found)
    found.version, found.fields, found.is_deleted = found.version + 1, dict(fields), False
    found.changed_us = now_us(session)
    session.flush()
    record(session, "template_set", tenant_id=tenant_id, text=name, data={"version": found.version})
    return found


def delete_template(session: Session, tenant_id: TenantId, name: str) -> None:
    """Forget the template. Jobs that were made from it keep what they are.

    Raises:
        NotFound: there is none of that name.
    """
    found = show_template(session, tenant_id, name)
    found.is_deleted, found.fields = True, {}
    session.flush()
    record(session, "template_deleted", tenant_id=tenant_id, text=name, data={"version": found.version})


def show_template(session: Session, tenant_id: TenantId, name: str) -> JobTemplate:
    """One template.

    Raises:
        NotFound: there is none of that name.
    """
    found = session.get(JobTemplate, (tenant_id, name))
    if found is None or found.is_deleted:
        raise NotFound("template")
    return found


def templates(session: Session, tenant_id: TenantId, limit: int, start: str | None) -> Sequence[JobTemplate]:
    """The tenant's templates, by name; one more than `limit` if there are."""
    query = select(JobTemplate).where(JobTemplate.tenant_id == tenant_id, col(JobTemplate.is_deleted).is_(False))
    if start is not None:
        query = query.where(col(JobTemplate.name) > start)
    return session.exec(query.order_by(col(JobTemplate.name)).limit(limit + 1)).all()


def _check_count(session: Session, tenant_id: TenantId) -> None:
    kept = select(func.count()).where(JobTemplate.tenant_id == tenant_id, col(JobTemplate.is_deleted).is_(False))
    if session.exec(kept).one() >= TEMPLATES_MAX:
        raise Limit(f"a tenant keeps at most {TEMPLATES_MAX} templates", "delete one: corral templates delete NAME")


def named_templates(session: Session, tenant_id: TenantId, names: Collection[str]) -> dict[str, JobTemplate]:
    """Those of these names that there are."""
    query = select(JobTemplate).where(JobTemplate.tenant_id == tenant_id, col(JobTemplate.name).in_(names))
    return {each.name: each for each in session.exec(query) if not each.is_deleted}
