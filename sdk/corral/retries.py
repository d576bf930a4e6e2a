"""When a request is sent again, and after how long."""

from collections.abc import Callable

import httpx2
from corral.call import Call
from corral.errors import ApiError
from tenacity import RetryCallState, retry_if_exception, wait_random_exponential

TRY_AGAIN_STATUSES = frozenset({429, 502, 503, 504})
NOT_DONE_STATUSES = frozenset({429, 503})
"""The server itself says that it did nothing."""
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
LONGEST_WAIT_SECONDS = 10.0

_back_off = wait_random_exponential(multiplier=0.2, max=LONGEST_WAIT_SECONDS)


def may_be_sent_again(error: BaseException, is_repeatable: bool) -> bool:
    """Whether another try could help, and could not do the same thing twice."""
    if isinstance(error, ApiError):
        return error.status in (TRY_AGAIN_STATUSES if is_repeatable else NOT_DONE_STATUSES)
    if isinstance(error, (httpx2.UnsupportedProtocol, httpx2.SSEError)):
        return False
    return isinstance(error, httpx2.TransportError if is_repeatable else NEVER_SENT)


def retry_rule(call: Call[object]) -> retry_if_exception:
    """The rule for one call, as tenacity takes it."""
    return retry_if_exception(lambda error: may_be_sent_again(error, call.is_repeatable))


def wait_seconds(state: RetryCallState) -> float:
    """As long as the server asked for; else a growing, random while, so that clients do not come back as one."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, ApiError) and error.retry_after_seconds is not None:
        return error.retry_after_seconds
    return _back_off(state)


def stop_after(patience_seconds: float) -> Callable[[RetryCallState], bool]:
    """Give up once the next try would come too late."""

    def is_over(state: RetryCallState) -> bool:
        spent = max(state.seconds_since_start or 0.0, state.idle_for)
        return spent + state.upcoming_sleep > patience_seconds

    return is_over
