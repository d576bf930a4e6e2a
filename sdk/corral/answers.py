"""What an answer that is no success says."""

import email.utils
import time

import httpx2
from corral.contract import Problem
from corral.errors import ApiError
from pydantic import ValidationError

RETRY_AFTER_MOST_SECONDS = 3600.0


def problem_of(response: httpx2.Response) -> ApiError:
    """The refusal in a response whose body was read, whoever sent it."""
    wait = retry_after_seconds(response.headers.get("Retry-After", ""), time.time())
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:  # not ours: a proxy's page, say
        detail = f"the server answered {response.status_code} {response.reason_phrase}".rstrip()
        return ApiError(
            f"http_{response.status_code}", response.status_code, detail, "check the server's URL", None, wait
        )
    return ApiError(problem.code, response.status_code, problem.detail, problem.help, problem.errors, wait)


def retry_after_seconds(header: str, now: float) -> float | None:
    """How long the server wants to be left alone: it says seconds or a date (RFC 9110, 10.2.3)."""
    if header.isascii() and header.isdecimal():
        return min(float(header), RETRY_AFTER_MOST_SECONDS)
    try:
        until = email.utils.parsedate_to_datetime(header).timestamp()
    except ValueError:  # absent, or not a date
        return None
    return min(max(until - now, 0.0), RETRY_AFTER_MOST_SECONDS)
