"""A quota as an admin sets it, and the bounds that follow from it and from the grants in force.

What is kept of a tenant's guarantee is counted on all above it, in the same transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import bindparam, update
from sqlmodel import Session, col, select

from domain.budget import GPU_HOUR_US
from domain.errors import GuaranteesExceedLimit, NotFound, QuotaChanged
from domain.ids import TenantId
from domain.purse import MONTHLY, TOTAL, Purse, Unit
from domain.quota import claim
from domain.quota_terms import (
    DEFAULT_HIGHEST_PRIORITY,
    DEFAULT_ISOLATION_LEVELS,
    DEFAULT_LONGEST_TIME_LIMIT_US,
    DEFAULT_MOST_QUEUED,
    DEFAULT_MOST_RUNNING,
    Extra,
    GpuBounds,
    GpuTerms,
    QuotaRules,
    broken_promise,
    check_terms,
    gpu_bounds,
)
from domain.scheduling.snapshot import ANY_MODEL
from store.base import table_of
from store.clock import now_us
from store.events import record
from store.locks import lock_quotas, tree
from store.purses import purses_of, set_bound
from store.quotas import ensure_row, parents
from store.tables import Quota, QuotaRequest, Tenant

GRANTED = "granted"
_QUOTA = table_of(Quota)
_RESERVE = (
    update(_QUOTA)
    .where(_QUOTA.c.tenant_id == bindparam("of"), _QUOTA.c.model == bindparam("which"))
    .values(gpu_reserved_milli=_QUOTA.c.gpu_reserved_milli + bindparam("grown"))
    .returning(_QUOTA.c.gpu_used_milli, _QUOTA.c.gpu_reserved_milli, _QUOTA.c.gpu_kept_milli)
)


def open_quota(session: Session, tenant_id: str) -> None:
    """The first quota of a new tenant, which sets nothing."""
    session.add(Quota(tenant_id=tenant_id, model=ANY_MODEL, gpu_ceiling_milli=0))
    session.flush()


def set_quota(session: Session, tenant_id: str, rules: QuotaRules, if_version: int | None = None) -> None:
    """Put these rules in the place of the old ones. Bounds may be set below what is in use.

    Args:
        if_version: the version that the new rules are a change of, if the caller minds.

    Raises:
        NotFound: there is no such tenant.
        QuotaChanged: somebody else has set it otherwise since.
        Invalid: a row contradicts itself.
        GuaranteesExceedLimit: more would be guaranteed than there may be.
    """
    if session.get(Tenant, tenant_id) is None:
        raise NotFound("tenant")
    check_terms(rules.gpus)
    lock_quotas(session, [tenant_id])
    for model in rules.gpus:
        ensure_row(session, tenant_id, model)
    rows = quota_rows(session, tenant_id)
    everything = rows[ANY_MODEL]
    for model, row in rows.items():
        _set_terms(row, rules.gpus.get(model))
    _set_rest(everything, rules, is_root=len(tree(session, tenant_id)) == 1)
    if if_version is not None and if_version != everything.version:
        months = {unit: purse.bound for unit, purse in path_months(session, tenant_id)[0].items()}
        if months != months_of(rules) or any(session.is_modified(row) for row in rows.values()):
            raise QuotaChanged(everything.version)
        return  # it is so already: the answer to the same change was lost, say
    everything.version += 1
    session.flush()
    apply_bounds(session, tenant_id)
    check_promises(session, tenant_id)
    months = months_of(rules)
    for unit in (Unit.GPU_TIME, Unit.MONEY):
        set_bound(session, tenant_id, tenant_id, unit, months.get(unit), MONTHLY)
    data = {model: asdict(terms) for model, terms in rules.gpus.items()}
    most = {"most_queued": everything.most_queued, "most_running": everything.most_running}
    record(session, "quota_set", tenant_id=tenant_id, data={"gpus": data, "version": everything.version, **most})


def apply_bounds(session: Session, tenant_id: str) -> None:
    """Write the bounds that follow from what is set and from the grants in force. The caller holds the quota rows."""
    grants = grants_in_force(session, tenant_id)
    extras = extras_of(grants)
    for model in extras:
        ensure_row(session, tenant_id, model)
    rows = quota_rows(session, tenant_id)
    terms = {model: terms_of(row) for model, row in rows.items() if row.is_set}
    bounds = gpu_bounds(terms, extras, has_parent=len(tree(session, tenant_id)) > 1)
    none = GpuBounds(None, 0, 0)
    for model, row in rows.items():
        found = bounds.get(model, none)
        before = claim(row.gpu_used_milli, row.gpu_reserved_milli, row.gpu_kept_milli)
        row.gpu_ceiling_milli = found.ceiling_milli
        row.gpu_promised_milli, row.gpu_kept_milli = found.promised_milli, found.kept_milli
        ends = [each.until_us for each in grants if model in (each.model, ANY_MODEL)]
        row.grants_until_us = min(ends, default=None)
        session.flush()
        after = claim(row.gpu_used_milli, row.gpu_reserved_milli, row.gpu_kept_milli)
        _reserve_above(session, tenant_id, model, after - before)


def check_promises(session: Session, tenant_id: str) -> None:
    """Refuse guarantees that could never be kept: the tenant's, those below it, and those beside it, in all rows.

    Raises:
        GuaranteesExceedLimit: below a tenant more is guaranteed than it may use.
    """
    tenants = parents(session)
    by_model: dict[str, dict[TenantId, GpuBounds]] = {}
    query = select(Quota.tenant_id, Quota.model, Quota.gpu_ceiling_milli, Quota.gpu_promised_milli)
    for of, model, ceiling, promised in session.exec(query):
        by_model.setdefault(model, {})[TenantId(of)] = GpuBounds(ceiling, promised, 0)
    for model, bounds in sorted(by_model.items()):
        if broken_promise(tenants, bounds, tree(session, tenant_id)) is not None:
            raise GuaranteesExceedLimit("GPUs in all" if model == ANY_MODEL else model)


def quota_rows(session: Session, tenant_id: str) -> Mapping[str, Quota]:
    """The tenant's rows as they stand, by model: one for each that was set or used, and `*`."""
    query = select(Quota).where(Quota.tenant_id == tenant_id).order_by(col(Quota.model))
    return {row.model: row for row in session.exec(query.execution_options(populate_existing=True))}


def path_rows(session: Session, tenant_id: str) -> Sequence[Mapping[str, Quota]]:
    """The rows of the tenant, of the one above it, and so on up to the root."""
    return [quota_rows(session, each) for each in reversed(tree(session, tenant_id))]


def months_of(rules: QuotaRules) -> dict[Unit, int]:
    """What a calendar month is bounded to."""
    hours = rules.gpu_hours_per_month
    bounds = {
        Unit.GPU_TIME: None if hours is None else hours * GPU_HOUR_US,
        Unit.MONEY: rules.money_micro_per_month,
    }
    return {unit: bound for unit, bound in bounds.items() if bound is not None}


def path_months(session: Session, tenant_id: str) -> Sequence[Mapping[Unit, Purse]]:
    """Of the tenant, of the one above it, and so on: the purses of this calendar month."""
    return [
        {purse.unit: purse for purse in purses_of(session, each) if purse.period != TOTAL}
        for each in reversed(tree(session, tenant_id))
    ]


def grants_in_force(session: Session, tenant_id: str) -> Sequence[QuotaRequest]:
    """What is granted to the tenant now, the first to end first."""
    query = select(QuotaRequest).where(
        QuotaRequest.tenant_id == tenant_id,
        QuotaRequest.state == GRANTED,
        col(QuotaRequest.until_us) > now_us(session),
    )
    return session.exec(query.order_by(col(QuotaRequest.until_us), QuotaRequest.id)).all()


def extras_of(grants: Sequence[QuotaRequest]) -> Mapping[str, Extra]:
    """What these grants add, by row."""
    extras: dict[str, Extra] = {}
    for grant in grants:
        had = extras.get(grant.model, Extra(0, 0))
        limit, guaranteed = had.limit_milli + grant.limit_milli, had.guaranteed_milli + grant.guaranteed_milli
        extras[grant.model] = Extra(limit, guaranteed)
    return extras


def terms_of(row: Quota) -> GpuTerms:
    """The row as it was set."""
    return GpuTerms(row.gpu_limit_milli, row.gpu_guaranteed_milli, row.gpu_borrowable_milli, row.gpu_lendable_milli)


def _set_terms(row: Quota, terms: GpuTerms | None) -> None:
    row.is_set = terms is not None
    said = terms or GpuTerms()
    row.gpu_limit_milli, row.gpu_guaranteed_milli = said.limit_milli, said.guaranteed_milli
    row.gpu_borrowable_milli, row.gpu_lendable_milli = said.borrowable_milli, said.lendable_milli


def _set_rest(row: Quota, rules: QuotaRules, *, is_root: bool) -> None:
    """Below another tenant what is not said is left to that one; at the top the platform's defaults are written."""
    row.most_queued, row.most_running = rules.most_queued, rules.most_running
    row.longest_time_limit_us, row.highest_priority = rules.longest_time_limit_us, rules.highest_priority
    row.isolation_levels = None if rules.isolation_levels is None else list(rules.isolation_levels)
    row.images = None if rules.images is None else list(rules.images)
    if not is_root:
        return
    row.most_queued = DEFAULT_MOST_QUEUED if row.most_queued is None else row.most_queued
    row.most_running = DEFAULT_MOST_RUNNING if row.most_running is None else row.most_running
    row.longest_time_limit_us = row.longest_time_limit_us or DEFAULT_LONGEST_TIME_LIMIT_US
    row.highest_priority = DEFAULT_HIGHEST_PRIORITY if row.highest_priority is None else row.highest_priority
    row.isolation_levels = list(DEFAULT_ISOLATION_LEVELS) if row.isolation_levels is None else row.isolation_levels


def _reserve_above(session: Session, tenant_id: str, model: str, grown: int) -> None:
    """Let all above the tenant know that it claims so much more, or less, of them."""
    for each in reversed(tree(session, tenant_id)[:-1]):
        if grown == 0:
            return
        ensure_row(session, each, model)
        values = {"of": each, "which": model, "grown": grown}
        used, reserved, kept = session.connection().execute(_RESERVE, values).one()
        grown = claim(used, reserved, kept) - claim(used, reserved - grown, kept)
