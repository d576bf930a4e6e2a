"""The one place where what Corral refuses becomes HTTP: RFC 9457 problems with a stable code."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from corral.contract import Problem
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from domain.errors import (
    Away,
    BatchRefused,
    Conflict,
    CorralError,
    Forbidden,
    Invalid,
    Limit,
    LogGap,
    NotFound,
    QuotaChanged,
    QuotaExceeded,
    RateLimited,
    TooLarge,
    Unauthenticated,
)
from store.health import CLASH, DATABASE_AWAY, has_lost_to_another

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
STATUSES: Mapping[type[CorralError], int] = {
    NotFound: 404,
    Unauthenticated: 401,
    Forbidden: 403,
    Invalid: 422,
    Conflict: 409,
    QuotaChanged: 412,
    QuotaExceeded: 403,  # not 429: asking again soon would not help
    TooLarge: 413,
    Limit: 429,
    Away: 503,
}
"""By the nearest class of the error."""
CODES = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    503: "unavailable",
}
"""For what HTTP itself refuses."""
PLAIN, FROM_TEMPLATE = "<job>", "<job from a template>"
"""Kinds of a body that may be either; no field is called so, and whoever sent one need not know."""
ERRORS_MAX = 20
TEXT_MAX = 200
RETRY_AFTER_SECONDS = "1"


def answer(error: Exception) -> Response:
    """The problem that tells of this error; what is not known as a refusal tells nothing of the insides."""
    if isinstance(error, CorralError):
        return _refusal(error)
    if isinstance(error, RequestValidationError):
        return _invalid(error.errors())
    if isinstance(error, HTTPException):
        return _of_http(error)
    if isinstance(error, CLASH) or has_lost_to_another(error):
        log.warning("two changes clashed", exc_info=error)
        return problem(503, "clash", "another change came in between", "try again", retry=True)
    if isinstance(error, DATABASE_AWAY):
        log.warning("the database is away: %s", type(error).__name__)
        return problem(503, "unavailable", "the database cannot be reached", "try again", retry=True)
    log.error("unhandled %s", type(error).__name__, exc_info=error)
    return problem(500, "internal", "something went wrong inside", "try again; tell an admin if it goes on")


def problem(
    status: int,
    code: str,
    detail: str,
    help: str = "",
    errors: Sequence[dict[str, str]] = (),
    headers: Mapping[str, str] | None = None,
    *,
    retry: bool = False,
) -> Response:
    """A problem as a response."""
    body = Problem(
        type=f"urn:corral:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=code,
        detail=detail,
        help=help,
        errors=list(errors),
    )
    more = {"Retry-After": RETRY_AFTER_SECONDS} if retry else {}
    return Response(body.model_dump_json(), status, {**more, **(headers or {})}, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let every error of a route come here."""
    for kind in (CorralError, RequestValidationError, HTTPException, *DATABASE_AWAY, *CLASH):
        app.add_exception_handler(kind, _handle)


def safe(text: str) -> str:
    """Text that came from a request, cut, and in ASCII: fit for a log line, a terminal and JSON."""
    cut = text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "…"
    spelled = cut.encode("ascii", "backslashreplace").decode()
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in spelled)


async def _handle(_request: Request, error: Exception) -> Response:
    return answer(error)


def _refusal(error: CorralError) -> Response:
    status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    errors = _places(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if isinstance(error, RateLimited):
        headers["Retry-After"] = str(error.retry_after_seconds)
    return problem(status, error.code, safe(str(error)), error.help, errors, headers, retry=status in (429, 503))


def _places(error: CorralError) -> list[dict[str, str]]:
    """What a program needs of a refusal, beside its code."""
    if isinstance(error, LogGap):
        return [{"size_bytes": str(error.size_bytes)}]
    if isinstance(error, BatchRefused):
        first = sorted(error.refused.items())[:ERRORS_MAX]
        return [{"where": f"jobs.{n}", "code": each.code, "why": safe(str(each))} for n, each in first]
    return []


def _invalid(errors: Sequence[Any]) -> Response:
    """Where and why, never the value: it may be huge, or hold a secret."""
    where = [
        {
            "where": safe(".".join(str(step) for step in error["loc"] if step not in (PLAIN, FROM_TEMPLATE))),
            "why": safe(str(error["msg"])),
        }
        for error in errors[:ERRORS_MAX]
    ]
    return problem(422, "invalid", "the request is not valid", "see errors for where and why", where)


def _of_http(error: HTTPException) -> Response:
    code = CODES.get(error.status_code, "http_error")
    detail = {404: "there is no such route", 405: "the route does not know this method"}
    text = detail.get(error.status_code, safe(error.detail))
    return problem(error.status_code, code, text, headers=error.headers, retry=error.status_code == 503)
