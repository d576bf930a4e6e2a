"""What a change of a quota would do now. Nothing is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmodel import Session, col, func, select

from domain.budget import month_of
from domain.errors import NotFound
from domain.ids import Instant, JobId, TenantId
from domain.quota_terms import QuotaRules
from domain.scheduling.snapshot import ANY_MODEL, Funds
from domain.scheduling.what_if import (
    Difference,
    Over,
    RunningJob,
    beyond,
    difference,
    over_rows,
    with_months,
    with_quota,
)
from store.clock import now_us
from store.funds import funds
from store.ledger_sums import ledger_sum
from store.quota_settings import extras_of, grants_in_force, months_of, quota_rows
from store.snapshot import SnapshotReader
from store.tables import Allocation, Attempt
from store.tenants import below


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be so."""

    tenant_id: TenantId
    over: Sequence[Over]
    running: Sequence[RunningJob]
    """What makes up that."""
    difference: Difference
    owners: Mapping[JobId, TenantId]
    """Of the queued jobs that may be told of."""


def preview(session: Session, scope: TenantId | None, tenant_id: TenantId, rules: QuotaRules) -> Preview:
    """What would be so had the tenant this quota. Who asks is told of its own jobs and of those below it.

    Raises:
        NotFound: there is no such tenant, or it is another's.
        Invalid: a row of the quota contradicts itself.
    """
    snapshot = SnapshotReader().read(session)
    seen = frozenset(snapshot.tenants) if scope is None else below(session, scope)
    if tenant_id not in seen or tenant_id not in snapshot.tenants:
        raise NotFound("tenant")
    now = now_us(session)
    changed = with_quota(snapshot, tenant_id, rules, extras_of(grants_in_force(session, tenant_id)))
    changed = replace(changed, funds=_funds(session, tenant_id, rules, now))
    team = below(session, tenant_id)
    queued = quota_rows(session, tenant_id)[ANY_MODEL].queued_used
    over = over_rows(changed.tenants[tenant_id], queued, rules)
    owners = {demand.job_id: demand.tenant_id for demand in snapshot.queue if demand.tenant_id in seen}
    running = beyond(over, _running(session, team)) if over else []
    return Preview(tenant_id, over, running, difference(snapshot, changed, now, team), owners)


def _funds(session: Session, tenant_id: TenantId, rules: QuotaRules, now: int) -> Funds:
    month, bounds = month_of(now), months_of(rules)
    spent = {unit: ledger_sum(session, tenant_id, unit, month) for unit in bounds}
    return with_months(funds(session, is_whole=bool(bounds)), tenant_id, month, bounds, spent)


def _running(session: Session, tenant_ids: frozenset[TenantId]) -> Sequence[RunningJob]:
    """What runs of these tenants, the latest first."""
    devices = func.count(col(Allocation.id))
    rows = session.execute(
        select(Attempt.job_id, Attempt.tenant_id, func.max(Allocation.model), devices, Attempt.assigned_us)  # type: ignore[call-overload]
        .outerjoin(Allocation, (col(Allocation.attempt_id) == Attempt.id) & col(Allocation.until_us).is_(None))
        .where(col(Attempt.state) != "ended", col(Attempt.tenant_id).in_(tenant_ids))
        .group_by(Attempt.id, Attempt.job_id, Attempt.tenant_id, Attempt.assigned_us)
        .order_by(col(Attempt.assigned_us).desc(), Attempt.id)
    )
    return [
        RunningJob(JobId(job_id), TenantId(owner), model, gpus, Instant(started))
        for job_id, owner, model, gpus, started in rows
    ]
