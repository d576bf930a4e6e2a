"""Follows a job's log over connections that break: what to ask for, what an event means, when to give up.

It does no input or output, so that a blocking client and an asynchronous one follow in the same way.
"""

import base64
import binascii
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx2
from corral.call import Call
from corral.calls import jobs as calls
from corral.errors import ApiError, Unreachable
from corral.jobs import WaitReason
from corral.retries import LONGEST_WAIT_SECONDS, may_be_sent_again
from pydantic import ValidationError

FIRST_WAIT_SECONDS = 0.2
PATIENCE_SECONDS = 300.0
"""Without a sign of life. A job outlasts a restart of the server, and so does whoever follows it."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes that the job wrote."""

    attempt: int
    offset: int
    """Of the first byte, in the attempt's log."""
    data: bytes


@dataclass(frozen=True, slots=True)
class StateChange:
    """The job is in another state."""

    state: str


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The job is over; nothing follows."""

    state: str
    exit_code: int | None


LogEvent = LogChunk | WaitReason | StateChange | JobEnd


class Following:
    """Where one follower stands."""

    def __init__(self, job_id: str) -> None:
        self.is_over = False
        self._call = calls.log_stream(job_id)
        self._last_id = ""
        self._reached: tuple[int, int] = (0, 0)
        """Attempt, and offset after the last byte that was handed on."""
        self._failures = 0
        self._waited_seconds = 0.0

    def call(self) -> Call[None]:
        """The stream, from where the last one broke."""
        if not self._last_id:
            return self._call
        return replace(self._call, headers={**self._call.headers, "Last-Event-ID": self._last_id})

    def take(self, event: httpx2.ServerSentEvent) -> LogEvent | None:
        """What an event says; None if it says nothing new.

        Raises:
            ApiError: it is not what the contract says.
        """
        self._failures, self._waited_seconds = 0, 0.0
        try:
            return self._meaning(event)
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise ApiError("unreadable_answer", 200, f"the log's stream holds an unreadable {event.event!r}") from error

    def pause_seconds(self, error: ApiError | httpx2.TransportError | None) -> float:
        """How long to wait before asking again after `error`, or after a stream that ended early (None).

        Raises:
            ApiError: the server refused, and asking again would not help.
            Unreachable: it has been tried for long enough.
        """
        if error is not None and not may_be_sent_again(error, is_repeatable=True):
            raise error
        window = min(FIRST_WAIT_SECONDS * 2**self._failures, LONGEST_WAIT_SECONDS)
        wait = random.uniform(window / 2, window)  # noqa: S311 - spreads clients, guards nothing
        if isinstance(error, ApiError) and error.retry_after_seconds is not None:
            wait = error.retry_after_seconds
        if self._waited_seconds + wait > PATIENCE_SECONDS:
            if isinstance(error, ApiError):
                raise error
            raise Unreachable(f"the log's stream broke: {error or 'it ended early'}", "ask again later") from error
        self._failures += 1
        self._waited_seconds += wait
        return wait

    def _meaning(self, event: httpx2.ServerSentEvent) -> LogEvent | None:
        if event.event == "log":
            return self._chunk(event)
        if event.event == "reason":
            return WaitReason.model_validate_json(event.data)
        if event.event == "state":
            return StateChange(_object(event)["state"])
        if event.event == "end":
            said = _object(event)
            end = JobEnd(said["state"], said.get("exit_code"))
            self.is_over = True
            return end
        return None  # of a newer server

    def _chunk(self, event: httpx2.ServerSentEvent) -> LogChunk | None:
        """The event's bytes, less what was handed on before: a resumed stream may overlap."""
        attempt_text, _, until_text = event.id.partition(":")
        attempt, until = int(attempt_text), int(until_text)
        try:
            data = base64.b64decode(_object(event)["data"], validate=True)
        except binascii.Error as error:
            raise ValueError("not base64") from error
        self._last_id = event.id
        reached = self._reached[1] if self._reached[0] == attempt else 0
        if attempt < self._reached[0] or until <= reached:
            return None
        self._reached = (attempt, until)
        fresh = data[-(until - reached) :]
        return LogChunk(attempt, until - len(fresh), fresh)


def _object(event: httpx2.ServerSentEvent) -> Mapping[str, Any]:
    said = json.loads(event.data)
    if not isinstance(said, dict):
        raise TypeError("not an object")
    return said
