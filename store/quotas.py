"""What a tenant may use and what it uses, counted in the same transaction as the change that uses it (P3).

Counters grow by a conditional UPDATE only; a trigger in the database refuses the same growth once more.
The caller holds the quota rows (`store.locks.lock_quotas`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import func, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col, or_, select

from domain.errors import NotFound, QuotaExceeded
from domain.scheduling.snapshot import ANY_MODEL, WHOLE_GPU
from domain.states import JobState
from store.events import record
from store.locks import lock_quotas, tree
from store.tables import Allocation, Job, Quota, Tenant


@dataclass(frozen=True, slots=True)
class QuotaRules:
    """A quota as an admin sets it. Limits in thousandths of a GPU, by model and `*`; None is no limit."""

    gpu_limit_milli: Mapping[str, int | None]
    most_queued: int
    most_running: int
    longest_time_limit_us: int
    highest_priority: int
    isolation_levels: tuple[str, ...]
    images: tuple[str, ...] | None


def open_quota(session: Session, tenant_id: str) -> None:
    """The first quota of a new tenant: no GPU until an admin grants some."""
    session.add(Quota(tenant_id=tenant_id, model=ANY_MODEL, gpu_limit_milli=0))
    session.flush()


def set_quota(session: Session, tenant_id: str, rules: QuotaRules) -> None:
    """Put these rules in the place of the old ones. Bounds may be set below what is in use."""
    if session.get(Tenant, tenant_id) is None:
        raise NotFound("tenant")
    lock_quotas(session, [tenant_id])
    for row in session.exec(select(Quota).where(Quota.tenant_id == tenant_id)):
        # a model that is no longer named is bounded by `*` alone; without a `*` nothing is granted
        row.gpu_limit_milli = None if row.model != ANY_MODEL else 0
    for model, limit in rules.gpu_limit_milli.items():
        _ensure_row(session, tenant_id, model)
        session.exec(_row(tenant_id, model)).one().gpu_limit_milli = limit
    everything = session.exec(_row(tenant_id, ANY_MODEL)).one()
    everything.most_queued = rules.most_queued
    everything.most_running = rules.most_running
    everything.longest_time_limit_us = rules.longest_time_limit_us
    everything.highest_priority = rules.highest_priority
    everything.isolation_levels = list(rules.isolation_levels)
    everything.images = None if rules.images is None else list(rules.images)
    session.flush()
    record(
        session,
        "quota_set",
        tenant_id=tenant_id,
        data={
            "gpu_limit_milli": dict(rules.gpu_limit_milli),
            "most_queued": rules.most_queued,
            "most_running": rules.most_running,
        },
    )


def take_queue_slot(session: Session, tenant_id: str) -> None:
    """Count a new job as queued, for its tenant and all above.

    Raises:
        QuotaExceeded: somebody in the tree has as many queued jobs as it may.
    """
    lock_quotas(session, [tenant_id])
    for each in tree(session, tenant_id):
        grown = session.execute(
            update(Quota)
            .where(
                col(Quota.tenant_id) == each,
                col(Quota.model) == ANY_MODEL,
                or_(col(Quota.most_queued).is_(None), col(Quota.queued_used) < col(Quota.most_queued)),
            )
            .values(queued_used=Quota.queued_used + 1)
        )
        if grown.rowcount != 1:  # type: ignore[attr-defined]
            raise QuotaExceeded("queued jobs", 1, 0)


def leave_queue(session: Session, tenant_id: str) -> None:
    """One job of the tenant is queued no more."""
    _add_to_tree(session, tenant_id, queued=-1)


def return_to_queue(session: Session, tenant_id: str) -> None:
    """One running job of the tenant waits again. A job that was admitted never loses its place for want of room."""
    _add_to_tree(session, tenant_id, queued=1, running=-1)


def leave_running(session: Session, tenant_id: str) -> None:
    """One job of the tenant runs no more."""
    _add_to_tree(session, tenant_id, running=-1)


def queued_to_running(session: Session, tenant_id: str) -> None:
    """One job of the tenant starts to run.

    Raises:
        QuotaExceeded: somebody in the tree has as many running jobs as it may.
    """
    for each in tree(session, tenant_id):
        grown = session.execute(
            update(Quota)
            .where(
                col(Quota.tenant_id) == each,
                col(Quota.model) == ANY_MODEL,
                or_(col(Quota.most_running).is_(None), col(Quota.running_used) < col(Quota.most_running)),
            )
            .values(running_used=Quota.running_used + 1, queued_used=Quota.queued_used - 1)
        )
        if grown.rowcount != 1:  # type: ignore[attr-defined]
            raise QuotaExceeded("running jobs", 1, 0)


def take_gpus(session: Session, tenant_id: str, models: Iterable[str]) -> None:
    """Charge whole devices of these models to the tenant and all above, under the model and under `*`.

    Raises:
        QuotaExceeded: a bound in the tree would be passed.
    """
    for each, model, share in _charges(session, tenant_id, models):
        _ensure_row(session, each, model)
        grown = session.execute(
            update(Quota)
            .where(
                col(Quota.tenant_id) == each,
                col(Quota.model) == model,
                or_(
                    col(Quota.gpu_limit_milli).is_(None),
                    Quota.gpu_used_milli + share <= col(Quota.gpu_limit_milli),
                ),
            )
            .values(gpu_used_milli=Quota.gpu_used_milli + share)
        )
        if grown.rowcount != 1:  # type: ignore[attr-defined]
            row = session.exec(_row(each, model)).one()
            left = max(0, (row.gpu_limit_milli or 0) - row.gpu_used_milli) // WHOLE_GPU
            raise QuotaExceeded("GPUs" if model == ANY_MODEL else model, share // WHOLE_GPU, left)


def give_back_gpus(session: Session, tenant_id: str, models: Iterable[str]) -> None:
    """Take the charge of `take_gpus` off again."""
    for each, model, share in _charges(session, tenant_id, models):
        session.execute(
            update(Quota)
            .where(col(Quota.tenant_id) == each, col(Quota.model) == model)
            .values(gpu_used_milli=Quota.gpu_used_milli - share)
        )


def recount(session: Session) -> dict[tuple[str, str], int]:
    """What the GPU counters should say, counted from the open allocations. It must always agree with them."""
    counted: Counter[tuple[str, str]] = Counter()
    open_shares = session.exec(
        select(Allocation.tenant_id, Allocation.model, func.sum(Allocation.share_milli))
        .where(col(Allocation.until_us).is_(None))
        .group_by(col(Allocation.tenant_id), col(Allocation.model))
    )
    for tenant_id, model, share in open_shares:
        for each in tree(session, tenant_id):
            counted[each, model] += int(share)
            counted[each, ANY_MODEL] += int(share)
    return dict(counted)


def recount_jobs(session: Session) -> dict[str, tuple[int, int]]:
    """By tenant: what `queued_used` and `running_used` should say."""
    counted: dict[str, tuple[int, int]] = {}
    for tenant_id, state in session.exec(select(Job.tenant_id, Job.state)):
        if JobState(state).is_terminal:
            continue
        for each in tree(session, tenant_id):
            queued, running = counted.get(each, (0, 0))
            is_running = state == JobState.RUNNING
            counted[each] = (queued + (not is_running), running + is_running)
    return counted


def _charges(session: Session, tenant_id: str, models: Iterable[str]) -> list[tuple[str, str, int]]:
    by_model = Counter(models)
    if not by_model:
        return []
    charged = [(ANY_MODEL, by_model.total()), *sorted(by_model.items())]
    return [(each, model, count * WHOLE_GPU) for each in tree(session, tenant_id) for model, count in charged]


def _add_to_tree(session: Session, tenant_id: str, queued: int = 0, running: int = 0) -> None:
    session.execute(
        update(Quota)
        .where(col(Quota.tenant_id).in_(tree(session, tenant_id)), col(Quota.model) == ANY_MODEL)
        .values(queued_used=Quota.queued_used + queued, running_used=Quota.running_used + running)
    )


def _ensure_row(session: Session, tenant_id: str, model: str) -> None:
    insert = postgres_insert if session.get_bind().dialect.name == "postgresql" else sqlite_insert
    session.execute(
        insert(Quota)
        .values(tenant_id=tenant_id, model=model, gpu_used_milli=0, queued_used=0, running_used=0)
        .on_conflict_do_nothing()
    )


def _row(tenant_id: str, model: str):  # type: ignore[no-untyped-def]
    return select(Quota).where(Quota.tenant_id == tenant_id, Quota.model == model)
