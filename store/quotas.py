"""What a tenant may use and what it uses, counted in the same transaction as the change that uses it (P3).

Counters grow by a conditional UPDATE only; a trigger in the database refuses the same growth once more.
The caller holds the quota rows (`store.locks.lock_quotas`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Update, bindparam, func, or_, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col, select

from domain.errors import NotFound, QuotaExceeded
from domain.scheduling.snapshot import ANY_MODEL, WHOLE_GPU
from domain.states import JobState
from store.base import table_of
from store.events import record
from store.locks import lock_quotas, tree
from store.tables import Allocation, Job, Quota, Tenant

_QUOTA = table_of(Quota)
_EVERYTHING = (_QUOTA.c.tenant_id == bindparam("of")) & (_QUOTA.c.model == ANY_MODEL)
_OF_MODEL = (_QUOTA.c.tenant_id == bindparam("of")) & (_QUOTA.c.model == bindparam("which"))
_QUEUE = (
    update(_QUOTA)
    .where(
        _EVERYTHING,
        or_(_QUOTA.c.most_queued.is_(None), _QUOTA.c.queued_used + bindparam("count") <= _QUOTA.c.most_queued),
    )
    .values(queued_used=_QUOTA.c.queued_used + bindparam("count"))
)
_RUN = (
    update(_QUOTA)
    .where(_EVERYTHING, or_(_QUOTA.c.most_running.is_(None), _QUOTA.c.running_used < _QUOTA.c.most_running))
    .values(running_used=_QUOTA.c.running_used + 1, queued_used=_QUOTA.c.queued_used - 1, served_us=bindparam("now"))
)
_TAKE = (
    update(_QUOTA)
    .where(
        _OF_MODEL,
        or_(
            _QUOTA.c.gpu_limit_milli.is_(None),
            _QUOTA.c.gpu_used_milli + bindparam("share") <= _QUOTA.c.gpu_limit_milli,
        ),
    )
    .values(gpu_used_milli=_QUOTA.c.gpu_used_milli + bindparam("share"))
)
_GIVE_BACK = update(_QUOTA).where(_OF_MODEL).values(gpu_used_milli=_QUOTA.c.gpu_used_milli - bindparam("share"))
_ADD = (
    update(_QUOTA)
    .where(_EVERYTHING)
    .values(
        queued_used=_QUOTA.c.queued_used + bindparam("queued"),
        running_used=_QUOTA.c.running_used + bindparam("running"),
    )
)


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


def add_queued(session: Session, counts: Mapping[str, int]) -> None:
    """Count so many new jobs as queued of each of these tenants: those who own them and all above, already locked.

    Raises:
        QuotaExceeded: one of them has no room for so many.
    """
    for tenant_id, count in counts.items():
        if not _has_grown(session, _QUEUE, of=tenant_id, count=count):
            raise QuotaExceeded("queued jobs", count, 0)


def leave_queue(session: Session, tenant_id: str) -> None:
    """One job of the tenant is queued no more."""
    _add_to_tree(session, tenant_id, queued=-1)


def return_to_queue(session: Session, tenant_id: str) -> None:
    """One running job of the tenant waits again. A job that was admitted never loses its place for want of room."""
    _add_to_tree(session, tenant_id, queued=1, running=-1)


def leave_running(session: Session, tenant_id: str) -> None:
    """One job of the tenant runs no more."""
    _add_to_tree(session, tenant_id, running=-1)


def queued_to_running(session: Session, path: Sequence[str], now: int) -> None:
    """One job starts to run, of the tenant at the end of `path`, which is its tree from the root down.

    Raises:
        QuotaExceeded: somebody in the tree has as many running jobs as it may.
    """
    for each in path:
        if not _has_grown(session, _RUN, of=each, now=now):
            raise QuotaExceeded("running jobs", 1, 0)


def take_gpus(session: Session, path: Sequence[str], models: Iterable[str]) -> None:
    """Charge whole devices of these models to the tenant and all above, under the model and under `*`.

    Raises:
        QuotaExceeded: a bound in the tree would be passed.
    """
    for each, model, share in _charges(path, models):
        if _has_grown(session, _TAKE, of=each, which=model, share=share):
            continue
        _ensure_row(session, each, model)  # the first device of this model that the tenant ever had
        if not _has_grown(session, _TAKE, of=each, which=model, share=share):
            row = session.exec(_row(each, model)).one()
            left = max(0, (row.gpu_limit_milli or 0) - row.gpu_used_milli) // WHOLE_GPU
            raise QuotaExceeded("GPUs" if model == ANY_MODEL else model, share // WHOLE_GPU, left)


def give_back_gpus(session: Session, tenant_id: str, models: Iterable[str]) -> None:
    """Take the charge of `take_gpus` off again."""
    for each, model, share in _charges(tree(session, tenant_id), models):
        session.connection().execute(_GIVE_BACK, {"of": each, "which": model, "share": share})


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


def _charges(path: Sequence[str], models: Iterable[str]) -> list[tuple[str, str, int]]:
    by_model = Counter(models)
    if not by_model:
        return []
    charged = [(ANY_MODEL, by_model.total()), *sorted(by_model.items())]
    return [(each, model, count * WHOLE_GPU) for each in path for model, count in charged]


def _has_grown(session: Session, statement: Update, **values: object) -> bool:
    """Whether the conditional UPDATE found its row within its bound."""
    return session.connection().execute(statement, values).rowcount == 1


def _add_to_tree(session: Session, tenant_id: str, queued: int = 0, running: int = 0) -> None:
    for each in tree(session, tenant_id):
        session.connection().execute(_ADD, {"of": each, "queued": queued, "running": running})


def _ensure_row(session: Session, tenant_id: str, model: str) -> None:
    insert = postgres_insert if session.get_bind().dialect.name == "postgresql" else sqlite_insert
    session.execute(
        insert(Quota)
        .values(tenant_id=tenant_id, model=model, gpu_used_milli=0, queued_used=0, running_used=0)
        .on_conflict_do_nothing()
    )


def _row(tenant_id: str, model: str):  # type: ignore[no-untyped-def]
    return select(Quota).where(Quota.tenant_id == tenant_id, Quota.model == model)
