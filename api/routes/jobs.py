"""Jobs: submit, look, cancel, hold, release."""

from typing import Annotated, Literal

from corral.cluster import Empty
from corral.contract import Page
from corral.jobs import AttemptView, EventView, JobView
from corral.ledger import LedgerEntryView
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.after_commit import Tell
from api.audit import change_of
from api.auth import ActiveCaller, MemberCaller, TenantCaller
from api.callers import Caller
from api.job_bodies import JobBody, check_arrays, resolved
from api.once import IdempotencyKey, asked_of
from api.paging import AskedPage
from api.parts import AppSettings
from api.paths import ID_PATTERN, JobPath, TenantQuery
from api.shown_key import SubmittingKey
from api.submission import submission
from api.submitting import AppSubmitter, Sent
from api.transactions import AppDatabase, Reading, Writing
from api.views.jobs import attempt_view, event_view, job_view, queued_view
from api.views.usage import entry_view
from store import jobs, requests
from store.jobs import AttemptRecord, NumberedEvent
from store.orders import Order
from store.paging import Position
from store.tables import LedgerEntry

router = APIRouter(prefix="/jobs", tags=["jobs"])

StateFilter = Literal["queued", "held", "running", "succeeded", "failed", "cancelled"]
ArrayFilter = Annotated[str | None, Query(pattern=ID_PATTERN, description="Only the jobs of this array.")]
NameFilter = Annotated[str | None, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


@router.post("", status_code=201, response_model=JobView)
async def submit(
    body: JobBody,
    key: SubmittingKey,
    request: Request,
    submitter: AppSubmitter,
    database: AppDatabase,
    settings: AppSettings,
    idempotency_key: IdempotencyKey = None,
    tenant_id: TenantQuery = None,
) -> Response:
    """Queue a job, or an array of them (its first job is the answer); it starts when its devices are free."""
    owner = key.seen.caller.acting_for(tenant_id)
    (job,) = await resolved(database, owner, [body], settings.json_bytes_max, [("body",)])
    check_arrays([job], settings.array_bytes_max)
    asked = submission(job.spec, settings.heartbeat_seconds, job.template)
    fields = await request.json()

    def sent(caller: Caller) -> Sent:
        return Sent(
            Order(caller.acting_for(tenant_id), [asked], caller.author),
            asked_of(request, caller, idempotency_key, body),
            lambda queued: queued_view(job.spec, queued[0], job.template).model_dump_json().encode(),
            lambda made: change_of(request, fields, made),
            size_bytes=int(request.headers.get("content-length", "0")),
        )

    return await submitter.submit(key, sent)


@router.get("")
def list_jobs(
    caller: TenantCaller,
    session: Reading,
    paging: AskedPage,
    state: StateFilter | None = None,
    name: NameFilter = None,
    array: ArrayFilter = None,
    tenant_id: TenantQuery = None,
) -> Page[JobView]:
    """Jobs, newest first."""
    rows = jobs.page(
        session, caller.narrowed(tenant_id), caller.own_jobs, state, name, array, paging.limit, paging.start
    )
    return paging.page(rows, job_view, lambda row: Position(row.job.submitted_us, row.job.id))


@router.get("/{job_id}")
def show(job_id: JobPath, caller: TenantCaller, session: Reading) -> JobView:
    """A job, as it stands."""
    return job_view(jobs.show(session, caller.scope, job_id))


@router.get("/{job_id}/attempts")
def attempts(job_id: JobPath, caller: TenantCaller, session: Reading, paging: AskedPage) -> Page[AttemptView]:
    """Every try at running it, newest first."""
    rows = jobs.attempts(session, caller.scope, job_id, paging.limit, paging.start)
    return paging.page(rows, attempt_view, _attempt_position)


@router.get("/{job_id}/events")
def events(job_id: JobPath, caller: TenantCaller, session: Reading, paging: AskedPage) -> Page[EventView]:
    """What happened to it, oldest first."""
    rows = jobs.events(session, caller.scope, job_id, paging.limit, paging.start)
    return paging.page(rows, event_view, _event_position)


@router.get("/{job_id}/ledger")
def ledger(job_id: JobPath, caller: TenantCaller, session: Reading, paging: AskedPage) -> Page[LedgerEntryView]:
    """Its lines in the ledger, in the order of their posting."""
    rows = jobs.ledger_entries(session, caller.scope, job_id, paging.limit, paging.start)
    return paging.page(rows, entry_view, _entry_position)


@router.post("/{job_id}/cancel")
def cancel(job_id: JobPath, caller: MemberCaller, session: Writing, tell: Tell, body: Empty | None = None) -> JobView:
    """End it, wherever it stands; a cancelled one stays as it is. A suspended tenant may do this too."""
    done = requests.cancel(session, caller.scope, job_id)
    tell.stop(done.stop)
    tell.changed(job_id)
    tell.wake()
    return job_view(jobs.show(session, caller.scope, job_id))


@router.post("/{job_id}/hold")
def hold(job_id: JobPath, caller: ActiveCaller, session: Writing, tell: Tell, body: Empty | None = None) -> JobView:
    """Keep a queued job from starting."""
    requests.hold(session, caller.scope, job_id)
    tell.changed(job_id)
    return job_view(jobs.show(session, caller.scope, job_id))


@router.post("/{job_id}/release")
def release(job_id: JobPath, caller: ActiveCaller, session: Writing, tell: Tell, body: Empty | None = None) -> JobView:
    """Let a held job start again."""
    requests.release(session, caller.scope, job_id)
    tell.changed(job_id)
    tell.wake()
    return job_view(jobs.show(session, caller.scope, job_id))


def _attempt_position(row: AttemptRecord) -> Position:
    return Position(row.attempt.number, row.attempt.id)


def _event_position(row: NumberedEvent) -> Position:
    return Position(row.number, "")


def _entry_position(row: LedgerEntry) -> Position:
    return Position(row.seq, row.id)
