"""What a change of a quota would do now: the policy, run with it and without it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from domain.ids import Instant, JobId, TenantId
from domain.levels import Level
from domain.purse import MONTHLY, TOTAL, Purse, Unit
from domain.quota import RUNNING, allowed_levels, path_of, reservations
from domain.quota_terms import (
    DEFAULT_ISOLATION_LEVELS,
    DEFAULT_MOST_QUEUED,
    DEFAULT_MOST_RUNNING,
    NO_BOUNDS,
    Extra,
    QuotaRules,
    check_terms,
    gpu_bounds,
)
from domain.scheduling.plan import plan
from domain.scheduling.snapshot import ANY_MODEL, WHOLE_GPU, Funds, Reason, Snapshot, TenantShare

QUEUED = "queued"
"""The row of a quota that counts queued jobs."""


@dataclass(frozen=True, slots=True)
class Over:
    """What is used beyond a bound: thousandths of a GPU of a model or of `*`, or jobs."""

    row: str
    limit: int
    used: int

    @property
    def over(self) -> int:
        """By how much."""
        return self.used - self.limit


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs, as far as quotas are concerned."""

    job_id: JobId
    tenant_id: TenantId
    model: str | None
    gpus: int
    started_at: Instant


@dataclass(frozen=True, slots=True)
class Difference:
    """What the next pass would do otherwise. Each list is in the order of the queue."""

    starts: Sequence[JobId]
    waits: Mapping[JobId, Reason]
    keeps_waiting: Mapping[JobId, Reason]


def with_quota(snapshot: Snapshot, tenant_id: TenantId, rules: QuotaRules, extras: Mapping[str, Extra]) -> Snapshot:
    """The same moment, had the tenant this quota; `extras` are its grants in force.

    Raises:
        Invalid: a row contradicts itself.
    """
    check_terms(rules.gpus)
    tenants = dict(snapshot.tenants)
    tenants[tenant_id] = _with_rules(tenants[tenant_id], rules, extras)
    rows = {*snapshot.tenants[tenant_id].gpu_kept_milli, *tenants[tenant_id].gpu_kept_milli}
    parents = {share.tenant_id: share.parent_id for share in tenants.values()}
    for row in sorted(rows):
        used = {share.tenant_id: share.gpu_used_milli.get(row, 0) for share in tenants.values()}
        kept = {share.tenant_id: share.gpu_kept_milli.get(row, 0) for share in tenants.values()}
        for of, reserved in reservations(parents, used, kept).items():
            if reserved != tenants[of].gpu_reserved_milli.get(row, 0):
                tenants[of] = replace(tenants[of], gpu_reserved_milli={**tenants[of].gpu_reserved_milli, row: reserved})
    levels = {of: allowed_levels(path_of(tenants, of)) for of in tenants}
    queue = (replace(demand, allowed_levels=levels[demand.tenant_id]) for demand in snapshot.queue)
    return replace(snapshot, tenants=tenants, queue=tuple(queue))


def with_months(
    funds: Funds, tenant_id: TenantId, month: str, bounds: Mapping[Unit, int], spent: Mapping[Unit, int]
) -> Funds:
    """The same purses, had the tenant these bounds in a calendar month, from this one on; a unit left out has none.

    Args:
        spent: what the month has used already, for a purse that is not there yet.
    """
    kept = [each for each in funds.purses if each.owner_id != tenant_id or each.period == TOTAL]
    own = {(each.unit, each.period): each for each in funds.purses if each not in kept}
    for unit, bound in bounds.items():
        if (unit, MONTHLY) not in own:
            kept += [Purse(tenant_id, unit, MONTHLY, bound, 0, 0), Purse(tenant_id, unit, month, bound, 0, spent[unit])]
        kept += [replace(each, bound=bound) for (of, _), each in own.items() if of == unit]
    return replace(funds, purses=tuple(kept))


def difference(before: Snapshot, after: Snapshot, now: Instant, of: Collection[TenantId]) -> Difference:
    """How the two moments differ in what starts now; of what waits in both, only jobs of these tenants are told."""
    first, second = plan(before, now), plan(after, now)
    order = {demand.job_id: demand.tenant_id for demand in before.queue}
    starting = {placement.job_id for placement in first.placements}
    waiting = [(job_id, second.waiting[job_id]) for job_id in order if job_id in second.waiting]
    return Difference(
        starts=[each.job_id for each in second.placements if each.job_id not in starting],
        waits={job_id: reason for job_id, reason in waiting if job_id in starting},
        keeps_waiting={job_id: reason for job_id, reason in waiting if job_id not in starting and order[job_id] in of},
    )


def over_rows(share: TenantShare, queued: int, rules: QuotaRules) -> Sequence[Over]:
    """What is used beyond the tenant's own bounds."""
    bounds = [(row, limit, share.gpu_used_milli.get(row, 0)) for row, limit in sorted(share.gpu_limit_milli.items())]
    most_queued = rules.most_queued
    if most_queued is None and share.parent_id is None:
        most_queued = DEFAULT_MOST_QUEUED
    bounds += [(RUNNING, share.running_limit, share.running), (QUEUED, most_queued, queued)]
    return [Over(row, limit, used) for row, limit, used in bounds if limit is not None and used > limit]


def beyond(over: Iterable[Over], running: Sequence[RunningJob]) -> Sequence[RunningJob]:
    """The latest of the running jobs, as many as make up what is over. `running` holds the latest first."""
    found: dict[JobId, RunningJob] = {}
    for each in over:
        rest = each.over if each.row != QUEUED else 0
        for job in running:
            share = 1 if each.row == RUNNING else job.gpus * WHOLE_GPU * (each.row in (job.model, ANY_MODEL))
            if rest > 0 and share:
                rest -= share
                found[job.job_id] = job
    return sorted(found.values(), key=lambda job: (-job.started_at, job.job_id))


def _with_rules(share: TenantShare, rules: QuotaRules, extras: Mapping[str, Extra]) -> TenantShare:
    is_root = share.parent_id is None
    bounds = gpu_bounds(rules.gpus, extras, has_parent=not is_root)
    rows = sorted({*share.gpu_limit_milli, *bounds})
    found = {row: bounds.get(row, NO_BOUNDS) for row in rows}
    levels = rules.isolation_levels
    if levels is None and is_root:
        levels = DEFAULT_ISOLATION_LEVELS
    running = rules.most_running
    if running is None and is_root:
        running = DEFAULT_MOST_RUNNING
    return replace(
        share,
        gpu_limit_milli={row: each.ceiling_milli for row, each in found.items()},
        gpu_promised_milli={row: each.promised_milli for row, each in found.items() if each.promised_milli},
        gpu_kept_milli={row: each.kept_milli for row, each in found.items() if each.kept_milli},
        running_limit=running,
        levels=None if levels is None else frozenset(level for level in Level if level in levels),
    )
