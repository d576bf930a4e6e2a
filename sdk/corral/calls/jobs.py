"""Requests about jobs, their output and their inputs."""

import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx2
from corral.call import PAGE_LIMIT, Call, act, create, get, place, query
from corral.contract import Page
from corral.jobs import ArtifactView, AttemptView, EventView, InputView, JobSpec, JobView
from corral.ledger import LedgerEntryView


@dataclass(frozen=True, slots=True)
class LogPart:
    """A stretch of an attempt's log."""

    attempt: int | None
    """None while there is no attempt yet."""
    until: int
    """Offset after the last byte."""
    data: bytes


def submit_spec(spec: JobSpec, *, tenant_id: str | None = None) -> Call[JobView]:
    """Queue a job; `tenant_id` is for admins, whose key has no tenant."""
    return create(place("jobs"), JobView, spec, tenant_id=tenant_id)


def jobs(
    *,
    state: str | None = None,
    name: str | None = None,
    array: str | None = None,
    tenant_id: str | None = None,
    limit: int = PAGE_LIMIT,
) -> Call[Page[JobView]]:
    """Jobs, newest first."""
    return get(place("jobs"), Page[JobView], state=state, name=name, array=array, tenant_id=tenant_id, limit=limit)


def job_view(job_id: str) -> Call[JobView]:
    """A job, as it stands."""
    return get(place("jobs", job_id), JobView)


def attempts(job_id: str) -> Call[Page[AttemptView]]:
    """Every try at running it, newest first."""
    return get(place("jobs", job_id, "attempts"), Page[AttemptView], limit=PAGE_LIMIT)


def events(job_id: str) -> Call[Page[EventView]]:
    """What happened to it, oldest first."""
    return get(place("jobs", job_id, "events"), Page[EventView], limit=PAGE_LIMIT)


def artifact_views(job_id: str) -> Call[Page[ArtifactView]]:
    """The files that it left, in the order of their arrival, of every attempt."""
    return get(place("jobs", job_id, "artifacts"), Page[ArtifactView], limit=PAGE_LIMIT)


def job_ledger(job_id: str) -> Call[Page[LedgerEntryView]]:
    """Its lines in the ledger."""
    return get(place("jobs", job_id, "ledger"), Page[LedgerEntryView], limit=PAGE_LIMIT)


def cancel(job_id: str) -> Call[JobView]:
    """End it, in whatever state it is; a cancelled one stays as it is."""
    return act(place("jobs", job_id, "cancel"), JobView, is_repeatable=True)


def hold(job_id: str) -> Call[JobView]:
    """Keep it from starting."""
    return act(place("jobs", job_id, "hold"), JobView, is_repeatable=False)


def release(job_id: str) -> Call[JobView]:
    """Let it start again."""
    return act(place("jobs", job_id, "release"), JobView, is_repeatable=False)


def log_part(
    job_id: str, *, attempt: int | None = None, since: int | None = None, tail: int | None = None
) -> Call[LogPart]:
    """The log of an attempt (the latest one by default) from byte `since` on, or its last `tail` bytes."""
    params = query({"attempt": attempt, "since": since, "tail": tail})
    return Call("GET", place("jobs", job_id, "logs"), _log_part, params=params)


def log_stream(job_id: str) -> Call[None]:
    """The log, live; an event stream, which `corral.following` reads."""
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    return Call("GET", place("jobs", job_id, "logs"), lambda _response: None, {"follow": "true"}, headers)


def artifact_content(job_id: str, name: str) -> Call[None]:
    """An artifact's bytes, which `corral.downloads` writes."""
    path = f"{place('jobs', job_id, 'artifacts')}/{quote(name, safe='/')}"
    return Call("GET", path, lambda _response: None)


def upload_tar(archive: Path, *, tenant_id: str | None = None) -> Call[InputView]:
    """Store a tar file as an input; `tenant_id` is for admins, whose key has no tenant."""
    headers = {"Content-Type": "application/x-tar", "Idempotency-Key": uuid.uuid4().hex}
    return Call("POST", place("inputs"), _input_view, query({"tenant_id": tenant_id}), headers, archive)


def _input_view(response: httpx2.Response) -> InputView:
    return InputView.model_validate_json(response.content)


def _log_part(response: httpx2.Response) -> LogPart:
    attempt = response.headers.get("X-Attempt", "")
    until = response.headers.get("X-Log-Offset", "")
    return LogPart(
        attempt=int(attempt) if attempt.isdecimal() else None,
        until=int(until) if until.isdecimal() else len(response.content),
        data=response.content,
    )
