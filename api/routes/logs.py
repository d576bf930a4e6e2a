"""A job's log: a stretch of it, or all of it as it grows."""

from typing import Annotated

import anyio
from fastapi import APIRouter, Header, Query, Request
from sqlmodel import Session
from sse_starlette import EventSourceResponse
from starlette.responses import Response, StreamingResponse

from api.auth import TenantCaller
from api.following import Follower, Followers, Reached
from api.parts import AppLogs, AppSettings
from api.paths import JobPath
from api.transactions import AppDatabase
from domain.errors import Invalid, NotFound
from domain.ids import JobId, TenantId
from store import jobs

router = APIRouter(prefix="/jobs", tags=["logs"])

OFFSET_MAX = 2**62
PING_SECONDS = 15
SEND_SECONDS = 60
"""A follower that takes nothing for so long is let go."""
Offset = Annotated[int | None, Query(ge=0, le=OFFSET_MAX)]


@router.get("/{job_id}/logs", response_class=Response, responses={200: {"content": {"application/octet-stream": {}}}})
async def logs(
    request: Request,
    job_id: JobPath,
    caller: TenantCaller,
    database: AppDatabase,
    held: AppLogs,
    settings: AppSettings,
    follow: bool = False,
    attempt: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    since: Offset = None,
    tail: Offset = None,
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
) -> Response:
    """Bytes of an attempt's log (the latest one's by default), or an event stream across all attempts."""
    if since is not None and tail is not None:
        raise Invalid("since and tail exclude each other")
    if follow:
        start = _resumed(last_event_id) or Reached(attempt or 1, since or 0)
        await database.read(lambda session: jobs.find(session, caller.scope, job_id))
        followers: Followers = request.app.state.followers
        follower = Follower(JobId(job_id), caller, database, held, start)
        return EventSourceResponse(followers.follow(follower), ping=PING_SECONDS, sep="\n", send_timeout=SEND_SECONDS)
    found = await database.read(lambda session: _attempt_of(session, caller.scope, job_id, attempt))
    if found is None:
        return Response(b"", media_type="application/octet-stream", headers={"X-Log-Offset": "0"})
    attempt_id, number = found
    end = await anyio.to_thread.run_sync(held.size, attempt_id)
    begin = min(end, since or 0) if tail is None else max(0, end - tail)
    headers = {"X-Log-Offset": str(end), "X-Attempt": str(number)}
    return StreamingResponse(
        held.chunks(attempt_id, begin, end), media_type="application/octet-stream", headers=headers
    )


def _attempt_of(session: Session, scope: TenantId | None, job_id: str, number: int | None) -> tuple[str, int] | None:
    jobs.find(session, scope, job_id)
    found = jobs.attempt_numbered(session, job_id, number)
    if found is None and number is not None:
        raise NotFound("attempt")
    return None if found is None else (found.id, found.number)


def _resumed(last_event_id: str | None) -> Reached | None:
    if last_event_id is None:
        return None
    number, _, offset = last_event_id.partition(":")
    if not (number.isdecimal() and offset.isdecimal() and len(number) <= 9 and len(offset) <= 18):
        raise Invalid("Last-Event-ID is not one of this stream")
    return Reached(max(1, int(number)), int(offset))
