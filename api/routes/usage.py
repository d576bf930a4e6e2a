"""What was used, by whatever is asked for, in whatever form."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from corral.ledger import UsageFormat, UsageView
from fastapi import APIRouter, Query
from sqlmodel import Session
from starlette.responses import Response, StreamingResponse

from api.auth import TenantCaller
from api.callers import Caller
from api.parts import AppSettings
from api.paths import TenantQuery
from api.transactions import AppDatabase, Database
from api.views.focus import COLUMNS, Issuer, focus_rows
from api.views.usage import csv_lines, usage_csv, usage_view
from domain.calendar import Calendar
from domain.errors import Invalid
from store.chain_rows import Reached, entries_with_jobs, roots
from store.clock import now_us
from store.tenants import below
from store.usage import GROUPS, LABEL, PERIODS, Question, usage

router = APIRouter(tags=["usage"])

CSV = "text/csv; charset=utf-8"
PAGE_ENTRIES = 1000
LABEL_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
Time = Annotated[int | None, Query(ge=0, le=2**62, description="Microseconds since the epoch, UTC.")]
GroupBy = Annotated[
    str, Query(max_length=500, description=f"Any of {', '.join(GROUPS)}, and label:NAME; one period at most.")
]
Zone = Annotated[
    str,
    Query(pattern=r"^[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,2}$", description="Such as Europe/Berlin."),
]


@router.get("/usage", response_model=UsageView, responses={200: {"content": {"text/csv": {}}}})
async def show_usage(
    caller: TenantCaller,
    database: AppDatabase,
    settings: AppSettings,
    group_by: GroupBy = "",
    since: Time = None,
    until: Time = None,
    tz: Zone = "UTC",
    format: UsageFormat = "json",
    tenant_id: TenantQuery = None,
) -> Response:
    """The ledger's sums, of the tenant and those below it. An admin sees all, or one tenant with those below.

    `csv` holds the same as `json`; `focus` every line of the ledger, as rows of FinOps FOCUS 1.2 in CSV.
    """
    groups, zone = _groups(group_by), _zone(tz)
    if format == "focus" and groups:
        raise Invalid("FOCUS rows are the ledger's own lines, not sums", "leave group_by out, or ask for csv")

    def asked(session: Session) -> Question:
        return _question(session, caller, tenant_id, groups, since, until, zone)

    if format == "focus":
        question = await database.read(asked)
        issuer = Issuer(settings.provider_name, settings.currency)
        return StreamingResponse(_focus(database, question, issuer), media_type=CSV)

    def answer(session: Session) -> Response:
        question = asked(session)
        found = usage(session, question)
        if format == "csv":
            return StreamingResponse(usage_csv(question, found), media_type=CSV)
        return Response(usage_view(question, found).model_dump_json(), media_type="application/json")

    return await database.read(answer)


async def _focus(database: Database, question: Question, issuer: Issuer) -> AsyncIterator[bytes]:
    """A page of entries at a time, each in a short transaction: as long as the ledger may be, little is held."""
    accounts = await database.read(roots)
    until_posted_us = await database.read(now_us)
    months = Calendar("month", question.zone)
    reached = Reached()
    for header in csv_lines(COLUMNS, ()):
        yield header
    while True:
        step = partial(
            entries_with_jobs, question=question, reached=reached, until_posted_us=until_posted_us, limit=PAGE_ENTRIES
        )
        page = await database.read(step)
        if not page:
            return
        lines = [line for row in page for line in focus_rows(row, question, months, issuer, accounts[row.tenant_id])]
        for piece in csv_lines(None, lines):
            yield piece
        reached = Reached(page[-1].tenant_id, page[-1].seq)


def _question(
    session: Session,
    caller: Caller,
    tenant_id: str | None,
    groups: list[str],
    since: int | None,
    until: int | None,
    zone: ZoneInfo,
) -> Question:
    scope = caller.narrowed(tenant_id)
    tenants = None if scope is None else sorted(below(session, scope))
    return Question(tenants, tuple(groups), since, until, zone)


def _groups(text: str) -> list[str]:
    asked = [word for word in text.split(",") if word]
    unknown = [word for word in asked if word not in GROUPS and not _is_label(word)]
    if unknown or len(set(asked)) != len(asked):
        raise Invalid("group_by holds what is no group, or one twice", f"choose from {', '.join(GROUPS)}, label:NAME")
    if sum(word in PERIODS for word in asked) > 1:
        raise Invalid("group_by holds two periods", f"choose one of {', '.join(PERIODS)}")
    return asked


def _is_label(word: str) -> bool:
    name = word.removeprefix(LABEL)
    return word.startswith(LABEL) and 0 < len(name) <= 63 and set(name) <= LABEL_CHARACTERS


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid("tz is no time zone", "write it as the IANA database does: Europe/Berlin") from None
