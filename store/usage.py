"""What the ledger adds up to, by whatever is asked for, in whole numbers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any, get_args

from sqlalchemy import ColumnElement, Select, and_, false, func, or_, select, true
from sqlmodel import Session

from domain.calendar import Calendar, Period, PeriodUnit
from domain.errors import Invalid
from domain.ids import TenantId
from store.base import table_of
from store.tables import Attempt, Job, LedgerEntry, Tenant

LABEL = "label:"
"""How a group by a job's label begins."""
PERIODS: tuple[PeriodUnit, ...] = get_args(PeriodUnit)
LINES_MAX = 100_000
"""Most lines of an answer: it is made in memory."""
FETCHED_AT_ONCE = 2000
ALWAYS = (-(2**63), 2**63 - 1)
_ENTRY, _JOB, _ATTEMPT, _TENANT = (table_of(row) for row in (LedgerEntry, Job, Attempt, Tenant))
COLUMNS: Mapping[str, ColumnElement[Any]] = {
    "tenant": _ENTRY.c.tenant_id,
    "member": _JOB.c.member_id,
    "key": _JOB.c.key_id,
    "model": _ENTRY.c.model,
    "image": _JOB.c.image_name,
    "node": _ATTEMPT.c.node_id,
    "cause": _ENTRY.c.cause,
    "job": _ENTRY.c.job_id,
}
OF_JOBS = frozenset({"member", "key", "image"})
"""Told by the job, as labels are."""
GROUPS = (*COLUMNS, *PERIODS)
"""What can be grouped by, beside labels."""


@dataclass(slots=True)
class Sum:
    """Use, added up."""

    gpu_us_milli: int = 0
    cost_micro: int = 0
    entries: int = 0

    def add(self, gpu_us_milli: int, cost_micro: int, entries: int) -> None:
        """Count more."""
        self.gpu_us_milli += gpu_us_milli
        self.cost_micro += cost_micro
        self.entries += entries


Key = tuple[str | Period | None, ...]
"""A value for each group asked for, in their order; None where an entry has none."""


@dataclass(frozen=True, slots=True)
class Question:
    """What of the ledger is asked for."""

    scope: Sequence[TenantId] | None
    """Whose entries; None for everybody's."""
    groups: Sequence[str] = ()
    since_us: int | None = None
    until_us: int | None = None
    """Entries that cross one of the two are cut there."""
    zone: tzinfo = UTC
    """In which hours, days, weeks and months are told."""

    @property
    def window(self) -> tuple[int, int]:
        """Since and until, open ends as the ends of time."""
        return (
            ALWAYS[0] if self.since_us is None else self.since_us,
            ALWAYS[1] if self.until_us is None else self.until_us,
        )

    @property
    def unit(self) -> PeriodUnit | None:
        """The length of the periods asked for; a question has one at most."""
        return next((unit for unit in PERIODS if unit in self.groups), None)


@dataclass(frozen=True, slots=True)
class Usage:
    """The sums. Those of `own` add up to everything that was asked for."""

    own: dict[Key, Sum] = field(default_factory=lambda: defaultdict(Sum))
    with_below: dict[Key, Sum] = field(default_factory=lambda: defaultdict(Sum))
    """By tenant: what each and those below it used together. Empty if there is no group `tenant`."""


def usage(session: Session, question: Question) -> Usage:
    """The ledger's sums, from `since_us` on and before `until_us`.

    Raises:
        Invalid: the answer would be too long.
    """
    found = Usage()
    if question.unit is None:
        _add_whole_entries(session, question, found)
    _add_cut_entries(session, question, found)
    if "tenant" in question.groups:
        _roll_up(session, question, found)
    return found


def within(question: Question) -> list[ColumnElement[bool]]:
    """Entries that lie in the window with some of their time; an entry of no length, with its instant."""
    starts, ends = _ENTRY.c.from_us, _ENTRY.c.until_us
    conditions: list[ColumnElement[bool]] = []
    if question.scope is not None:
        conditions.append(_ENTRY.c.tenant_id.in_(question.scope))
    if question.since_us is not None:
        conditions.append(or_(ends > question.since_us, starts >= question.since_us))
    if question.until_us is not None:
        conditions.append(starts < question.until_us)
    return conditions


def _add_whole_entries(session: Session, question: Question, to: Usage) -> None:
    """Those that nothing cuts are summed by the database."""
    dimensions = [_column(group) for group in question.groups]
    sums = (func.sum(_ENTRY.c.duration_us), func.sum(_ENTRY.c.cost_micro), func.count())
    query = _joined(select(*dimensions, _ENTRY.c.share_milli, *sums), question.groups)
    query = query.where(*within(question), ~_is_cut(question)).group_by(*dimensions, _ENTRY.c.share_milli)
    for row in _streamed(session, query):
        share_milli, duration_us, cost_micro, entries = row[len(dimensions) :]
        _sum_of(to, tuple(row[: len(dimensions)])).add(int(duration_us) * share_milli, int(cost_micro), entries)


def _add_cut_entries(session: Session, question: Question, to: Usage) -> None:
    """Those that may lie in several periods, or partly outside of the window, are cut one by one."""
    calendar = Calendar(question.unit or "month", question.zone)
    period_at = None if question.unit is None else question.groups.index(question.unit)
    plain = [group for group in question.groups if group != question.unit]
    columns = (_ENTRY.c.from_us, _ENTRY.c.until_us, _ENTRY.c.duration_us, _ENTRY.c.cost_micro, _ENTRY.c.share_milli)
    query = _joined(select(*columns, *(_column(group) for group in plain)), plain).where(*within(question))
    if question.unit is None:
        query = query.where(_is_cut(question))
    for row in _streamed(session, query):
        from_us, until_us, duration_us, cost_micro, share_milli, *values = row
        for part in calendar.parts((from_us, until_us), question.window, (duration_us, cost_micro)):
            key = values if period_at is None else [*values[:period_at], part.period, *values[period_at:]]
            _sum_of(to, tuple(key)).add(part.amounts[0] * share_milli, part.amounts[1], 1)


def _roll_up(session: Session, question: Question, found: Usage) -> None:
    """Count what each tenant used for all above it as well, as far as they were asked for."""
    parents = _parents(session, question.scope)
    place = question.groups.index("tenant")
    for key, own in list(found.own.items()):
        tenant_id: Any = key[place]
        while tenant_id in parents:
            above = (*key[:place], tenant_id, *key[place + 1 :])
            found.with_below[above].add(own.gpu_us_milli, own.cost_micro, own.entries)
            tenant_id = parents[tenant_id]


def _parents(session: Session, scope: Sequence[TenantId] | None) -> Mapping[str, str | None]:
    query = select(_TENANT.c.id, _TENANT.c.parent_id)
    if scope is not None:
        query = query.where(_TENANT.c.id.in_(scope))
    return {row.id: row.parent_id for row in session.connection().execute(query)}


def _column(group: str) -> ColumnElement[Any]:
    if group.startswith(LABEL):
        label: ColumnElement[Any] = _JOB.c.spec[("labels", group.removeprefix(LABEL))].as_string()
        return label
    return COLUMNS[group]


def _joined(query: Select[Any], groups: Sequence[str]) -> Select[Any]:
    """With the tables that the groups need; an adjustment about no job stays."""
    query = query.select_from(_ENTRY)
    if any(group in OF_JOBS or group.startswith(LABEL) for group in groups):
        query = query.outerjoin(_JOB, _JOB.c.id == _ENTRY.c.job_id)
    if "node" in groups:
        query = query.outerjoin(_ATTEMPT, _ATTEMPT.c.id == _ENTRY.c.attempt_id)
    return query


def _is_cut(question: Question) -> ColumnElement[bool]:
    """Whether an entry crosses an end of the window."""
    starts, ends = _ENTRY.c.from_us, _ENTRY.c.until_us
    moments = [each for each in (question.since_us, question.until_us) if each is not None]
    return or_(false(), *(and_(starts < each, ends > each) for each in moments)) if moments else ~true()


def _streamed(session: Session, query: Select[Any]) -> Iterator[Sequence[Any]]:
    with session.connection().execute(query.execution_options(yield_per=FETCHED_AT_ONCE)) as rows:
        yield from rows


def _sum_of(found: Usage, key: Key) -> Sum:
    if key not in found.own and len(found.own) >= LINES_MAX:
        raise Invalid(f"the answer would have more than {LINES_MAX} lines", "narrow since and until, or group by less")
    return found.own[key]
