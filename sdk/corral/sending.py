"""What the blocking and the asynchronous client share: how they are set up, and how an answer is read."""

import json
import os
import ssl
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, TypeVar

import httpx2
from corral.answers import problem_of
from corral.call import Call
from corral.config import Settings
from corral.errors import ApiError, NotConfigured, Unreachable
from corral.jobs import JobSpec
from pydantic import ValidationError

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""How long a request is tried again before the client gives up."""
TERMINAL_STATES = frozenset({"succeeded", "failed", "cancelled"})
TIMEOUT = httpx2.Timeout(60.0, connect=5.0)
"""Of silence, in seconds: an event stream that lives sends a sign of it more often."""
FIRST_POLL_SECONDS = 0.05
LONGEST_POLL_SECONDS = 2.0
CHUNK_BYTES = 1 << 18


def headers_of(settings: Settings) -> dict[str, str]:
    """What every request says."""
    return {"Authorization": f"Bearer {settings.key}", "User-Agent": f"corral/{version('corral')}"}


def trust(environ: Mapping[str, str] = os.environ) -> ssl.SSLContext | bool:
    """Who may vouch for the server: the authority in the file that CORRAL_CA_FILE names, else whom the system trusts.

    Raises:
        NotConfigured: the file is not fit for use.
    """
    file = environ.get("CORRAL_CA_FILE")
    if not file:
        return True
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        raise NotConfigured(
            f"CORRAL_CA_FILE {file} cannot be used: {error}", "name a file of PEM certificates"
        ) from error


def read_answer(call: Call[T], response: httpx2.Response) -> T:
    """What a response, whose body is there, says.

    Raises:
        ApiError: a refusal, or an answer that this client does not understand.
    """
    if not response.is_success:
        raise problem_of(response)
    try:
        return call.read(response)
    except ValidationError as error:
        detail = f"the answer to {call.method} {call.path} is not what this client understands"
        raise ApiError("unreadable_answer", response.status_code, detail, "update corral, or check the URL") from error


def unreachable(settings: Settings, error: httpx2.TransportError) -> Unreachable:
    """The end of all tries."""
    reason = str(error) or type(error).__name__
    return Unreachable(f"{settings.url} cannot be reached: {reason}", "check the URL and that the server runs")


def spec_of(spec: JobSpec | None, fields: Mapping[str, Any]) -> JobSpec:
    """The job as one value, from either way to say it.

    Raises:
        TypeError: both ways at once.
        pydantic.ValidationError: it is no job.
    """
    if spec is None:
        return JobSpec(**fields)
    if fields:
        raise TypeError("give a JobSpec or its fields, not both")
    return spec


def read_fields(fields: Mapping[str, Any]) -> JobSpec:
    """A job from what a JSON document held, as strictly as the server reads it."""
    return JobSpec.model_validate_json(json.dumps(fields))


def poll_seconds() -> Iterator[float]:
    """Waits between looks at a job: short at first, for the short ones."""
    wait = FIRST_POLL_SECONDS
    while True:
        yield wait
        wait = min(wait * 1.5, LONGEST_POLL_SECONDS)
