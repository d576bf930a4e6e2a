"""Many jobs at once: batches, and arrays."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
from corral.batches import BatchSpec, TemplatedJob
from corral.cluster import Empty
from corral.jobs import ArrayView, BatchView, JobSpec
from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from api.after_commit import Tell
from api.audit import change_of
from api.auth import MemberCaller, TenantCaller
from api.callers import Caller
from api.job_bodies import JobBody, Resolved, check_arrays, resolved
from api.once import IdempotencyKey, asked_of
from api.parts import AppSettings
from api.paths import ArrayPath, TenantQuery
from api.problems import ERRORS_MAX
from api.shown_key import SubmittingKey
from api.submission import submission
from api.submitting import AppSubmitter, Sent
from api.transactions import AppDatabase, Reading, Writing
from api.views.jobs import array_view
from store import arrays
from store.array_cancel import cancel_array
from store.orders import Order, Queued, Submission

router = APIRouter(tags=["jobs"])
_BODY: TypeAdapter[JobSpec | TemplatedJob] = TypeAdapter(JobBody)


@router.post("/jobs/batch", status_code=201, response_model=BatchView)
async def submit_batch(
    body: BatchSpec,
    key: SubmittingKey,
    request: Request,
    submitter: AppSubmitter,
    database: AppDatabase,
    settings: AppSettings,
    idempotency_key: IdempotencyKey = None,
    tenant_id: TenantQuery = None,
) -> Response:
    """Queue many jobs, all or none. A later one may wait for an earlier one by `#` and its name."""
    bodies = await anyio.to_thread.run_sync(_parsed, body.jobs)
    places = [("body", "jobs", place) for place in range(len(bodies))]
    owner = key.seen.caller.acting_for(tenant_id)
    jobs = await resolved(database, owner, bodies, settings.batch_bytes_max, places)
    await anyio.to_thread.run_sync(check_arrays, jobs, settings.array_bytes_max)
    asked = await anyio.to_thread.run_sync(partial(_submissions, jobs, settings.heartbeat_seconds))
    digest = await anyio.to_thread.run_sync(partial(asked_of, request, key.seen.caller, idempotency_key, body))

    def sent(caller: Caller) -> Sent:
        return Sent(
            Order(caller.acting_for(tenant_id), asked, caller.author),
            digest,
            _told,
            lambda made: change_of(request, {"jobs": len(asked)}, made),
            size_bytes=int(request.headers.get("content-length", "0")),
        )

    return await submitter.submit(key, sent)


@router.get("/arrays/{array_id}")
def show_array(array_id: ArrayPath, caller: TenantCaller, session: Reading) -> ArrayView:
    """An array, and how many of its jobs are in which state; the jobs are in `GET /v1/jobs?array=`."""
    return array_view(arrays.show(session, caller.scope, caller.own_jobs, array_id))


@router.post("/arrays/{array_id}/cancel")
def cancel(
    array_id: ArrayPath, caller: MemberCaller, session: Writing, tell: Tell, body: Empty | None = None
) -> ArrayView:
    """End every job of it that is not over. A suspended tenant may do this too."""
    for done in cancel_array(session, caller.scope, caller.own_jobs, array_id):
        tell.stop(done.stop)
        tell.changed(done.job.id)
    tell.wake()
    return array_view(arrays.show(session, caller.scope, caller.own_jobs, array_id))


def _parsed(jobs: Sequence[dict[str, Any]]) -> list[JobSpec | TemplatedJob]:
    """Each job by itself, in a thread: a thousand would hold up everybody else.

    Raises:
        RequestValidationError: some are not valid; the first of them are told.
    """
    parsed: list[JobSpec | TemplatedJob] = []
    errors: list[Any] = []
    for place, job in enumerate(jobs):
        try:
            parsed.append(_BODY.validate_python(job))
        except ValidationError as error:
            errors += [{**each, "loc": ("body", "jobs", place, *each["loc"])} for each in error.errors()]
        if len(errors) >= ERRORS_MAX:
            break
    if errors:
        raise RequestValidationError(errors)
    return parsed


def _submissions(jobs: Sequence[Resolved], heartbeat_seconds: int) -> list[Submission]:
    return [submission(each.spec, heartbeat_seconds, each.template) for each in jobs]


def _told(queued: Sequence[Queued]) -> bytes:
    return json.dumps({"ids": [each.array_id or each.job_id for each in queued]}).encode()
