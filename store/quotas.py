"""What a tenant may use and what it uses, counted in the same transaction as the change that uses it (P3).

Counters grow by a conditional UPDATE only; a trigger in the database refuses the same growth once more.
The caller holds the quota rows (`store.locks.lock_quotas`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Update, and_, bindparam, func, or_, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col, select

from domain.errors import QuotaExceeded
from domain.ids import TenantId
from domain.quota import claim, reservations
from domain.scheduling.snapshot import ANY_MODEL, WHOLE_GPU
from domain.states import JobState
from store.base import table_of
from store.locks import tree
from store.statements import Query, take_steps
from store.tables import Allocation, Job, Quota, Tenant

_QUOTA = table_of(Quota)
_EVERYTHING = (_QUOTA.c.tenant_id == bindparam("of")) & (_QUOTA.c.model == ANY_MODEL)
_OF_MODEL = (_QUOTA.c.tenant_id == bindparam("of")) & (_QUOTA.c.model == bindparam("which"))
_CLAIMING = (_QUOTA.c.gpu_used_milli, _QUOTA.c.gpu_reserved_milli, _QUOTA.c.gpu_kept_milli)
_STANDING = select(_QUOTA.c.gpu_used_milli, _QUOTA.c.gpu_reserved_milli, _QUOTA.c.gpu_ceiling_milli).where(_OF_MODEL)
_QUEUE = (
    update(_QUOTA)
    .where(
        _EVERYTHING,
        or_(_QUOTA.c.most_queued.is_(None), _QUOTA.c.queued_used + bindparam("count") <= _QUOTA.c.most_queued),
    )
    .values(queued_used=_QUOTA.c.queued_used + bindparam("count"))
    .returning(_QUOTA.c.tenant_id)
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
        or_(_QUOTA.c.grants_until_us.is_(None), _QUOTA.c.grants_until_us > bindparam("now")),
        or_(
            _QUOTA.c.gpu_ceiling_milli.is_(None),
            and_(
                _QUOTA.c.gpu_used_milli + bindparam("share") <= _QUOTA.c.gpu_ceiling_milli,
                or_(
                    bindparam("grown") == 0,
                    _QUOTA.c.gpu_used_milli + _QUOTA.c.gpu_reserved_milli + bindparam("grown")
                    <= _QUOTA.c.gpu_ceiling_milli,
                ),
            ),
        ),
    )
    .values(
        gpu_used_milli=_QUOTA.c.gpu_used_milli + bindparam("share"),
        gpu_reserved_milli=_QUOTA.c.gpu_reserved_milli + bindparam("grown") - bindparam("share"),
    )
    .returning(*_CLAIMING)
)
_GIVE_BACK = (
    update(_QUOTA)
    .where(_OF_MODEL)
    .values(
        gpu_used_milli=_QUOTA.c.gpu_used_milli - bindparam("share"),
        gpu_reserved_milli=_QUOTA.c.gpu_reserved_milli + bindparam("share") - bindparam("shrunk"),
    )
    .returning(*_CLAIMING)
)
_ADD = (
    update(_QUOTA)
    .where(_EVERYTHING)
    .values(
        queued_used=_QUOTA.c.queued_used + bindparam("queued"),
        running_used=_QUOTA.c.running_used + bindparam("running"),
    )
)


def add_queued(session: Session, counts: Mapping[str, int]) -> None:
    """Count so many new jobs as queued of each of these tenants: those who own them and all above, already locked.

    Raises:
        QuotaExceeded: one of them has no room for so many.
    """
    done = take_steps(session, *(Query(_QUEUE, {"of": of, "count": count}) for of, count in counts.items()))
    for count, each in zip(counts.values(), done, strict=True):
        if not each.found:
            raise QuotaExceeded("queued jobs", count, 0)


def leave_queue(session: Session, tenant_id: str, count: int = 1) -> None:
    """So many jobs of the tenant are queued no more."""
    _add_to_tree(session, tenant_id, queued=-count)


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


def take_gpus(session: Session, path: Sequence[str], models: Iterable[str], now: int) -> None:
    """Charge whole devices of these models to the tenant and all above, under the model and under `*`.

    Args:
        now: the database's time; a grant that ended by then no longer counts.

    Raises:
        QuotaExceeded: a bound in the tree would be passed, or what is kept for another would be taken.
    """
    for model, share in _charges(models):
        grown = share
        for each in reversed(path):
            values = {"of": each, "which": model, "share": share, "grown": grown, "now": now}
            row = session.connection().execute(_TAKE, values).one_or_none()
            if row is None:
                ensure_row(session, each, model)  # the first device of this model that the tenant ever had
                row = session.connection().execute(_TAKE, values).one_or_none()
            if row is None:
                raise QuotaExceeded("GPUs" if model == ANY_MODEL else model, share // WHOLE_GPU, _left(session, values))
            used, reserved, kept = row
            grown = claim(used, reserved, kept) - claim(used + reserved - grown, 0, kept)


def give_back_gpus(session: Session, tenant_id: str, models: Iterable[str]) -> None:
    """Take the charge of `take_gpus` off again."""
    path = tree(session, tenant_id)
    for model, share in _charges(models):
        shrunk = share
        for each in reversed(path):
            values = {"of": each, "which": model, "share": share, "shrunk": shrunk}
            used, reserved, kept = session.connection().execute(_GIVE_BACK, values).one()
            shrunk = claim(used + reserved + shrunk, 0, kept) - claim(used, reserved, kept)


def parents(session: Session) -> dict[TenantId, TenantId | None]:
    """Every tenant, and the one above it."""
    rows = session.exec(select(Tenant.id, Tenant.parent_id))
    return {TenantId(of): None if parent_id is None else TenantId(parent_id) for of, parent_id in rows}


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


def recount_reserved(session: Session) -> dict[tuple[str, str], int]:
    """What `gpu_reserved_milli` should say, from what is kept and used below each tenant."""
    tenants = parents(session)
    counted: dict[tuple[str, str], int] = {}
    used: dict[str, dict[TenantId, int]] = {}
    kept: dict[str, dict[TenantId, int]] = {}
    for row in session.exec(select(Quota)):
        used.setdefault(row.model, {})[TenantId(row.tenant_id)] = row.gpu_used_milli
        kept.setdefault(row.model, {})[TenantId(row.tenant_id)] = row.gpu_kept_milli
    for model in used:
        for tenant_id, reserved in reservations(tenants, used[model], kept[model]).items():
            if reserved:
                counted[tenant_id, model] = reserved
    return counted


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


def _charges(models: Iterable[str]) -> list[tuple[str, int]]:
    by_model = Counter(models)
    if not by_model:
        return []
    charged = [(ANY_MODEL, by_model.total()), *sorted(by_model.items())]
    return [(model, count * WHOLE_GPU) for model, count in charged]


def _left(session: Session, values: Mapping[str, object]) -> int:
    """Whole devices that the row would still let its tenant take."""
    used, reserved, ceiling = session.connection().execute(_STANDING, values).one()
    return int(max(0, (ceiling or 0) - used - reserved) // WHOLE_GPU)


def _has_grown(session: Session, statement: Update, **values: object) -> bool:
    """Whether the conditional UPDATE found its row within its bound."""
    return session.connection().execute(statement, values).rowcount == 1


def _add_to_tree(session: Session, tenant_id: str, queued: int = 0, running: int = 0) -> None:
    for each in tree(session, tenant_id):
        session.connection().execute(_ADD, {"of": each, "queued": queued, "running": running})


def ensure_row(session: Session, tenant_id: str, model: str) -> None:
    """Let the tenant have a row of this model: one that bounds nothing, if it had none."""
    insert = postgres_insert if session.get_bind().dialect.name == "postgresql" else sqlite_insert
    values = {"tenant_id": tenant_id, "model": model, "gpu_used_milli": 0, "queued_used": 0, "running_used": 0}
    session.execute(insert(Quota).values(**values, served_us=0).on_conflict_do_nothing())
