"""A scripted server behind the library's own transport, and answers to script it with."""

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from corral import AsyncClient, Client

JOB_ID = "job_" + "0" * 26


@dataclass
class Script:
    """Answers requests in turn; an exception stands for a connection that breaks."""

    answers: list[httpx2.Response | Exception]
    requests: list[httpx2.Request] = field(default_factory=list)
    naps: list[float] = field(default_factory=list)
    """How long the client would have slept."""

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def nap(self, seconds: float) -> None:
        self.naps.append(seconds)

    def headers(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.requests]


@pytest.fixture
def a_client() -> Callable[..., tuple[Client, Script]]:
    def make(*answers: httpx2.Response | Exception, patience_seconds: float = 60.0) -> tuple[Client, Script]:
        script = Script(list(answers))
        transport = httpx2.MockTransport(script)
        client = Client("http://corral.test", "key", transport=transport, sleep=script.naps.append,
                        patience_seconds=patience_seconds)  # fmt: skip
        return client, script

    return make


@pytest.fixture
def an_async_client() -> Callable[..., tuple[AsyncClient, Script]]:
    def make(*answers: httpx2.Response | Exception) -> tuple[AsyncClient, Script]:
        script = Script(list(answers))
        client = AsyncClient("http://corral.test", "key", transport=httpx2.MockTransport(script), sleep=script.nap)
        return client, script

    return make


@pytest.fixture
def a_job() -> Callable[..., dict[str, Any]]:
    def make(**over: Any) -> dict[str, Any]:
        return {
            "id": JOB_ID, "tenant_id": "ten_" + "0" * 26, "state": "queued", "reason": None, "outcome": None,
            "exit_code": None, "error": None, "spec": {"image": "host", "command": ["true"]},
            "submitted_at": 1_700_000_000_000_000, "started_at": None, "ended_at": None, "attempts": 0,
            "attempt": None, **over,
        }  # fmt: skip

    return make


@pytest.fixture
def a_problem() -> Callable[..., httpx2.Response]:
    def make(status: int, code: str, headers: dict[str, str] | None = None, **over: Any) -> httpx2.Response:
        said = {"type": "about:blank", "title": code, "status": status, "code": code, "detail": "no", **over}
        return httpx2.Response(status, json=said, headers=headers)

    return make


@pytest.fixture
def a_stream() -> Callable[[Iterable[str]], httpx2.Response]:
    def make(events: Iterable[str]) -> httpx2.Response:
        return httpx2.Response(200, text="".join(events), headers={"Content-Type": "text/event-stream"})

    return make


@pytest.fixture
def an_event() -> Callable[..., str]:
    """An event of a log's stream; `log` takes the bytes and where they end."""

    def make(kind: str, data: bytes | None = None, attempt: int = 1, until: int = 0, **said: Any) -> str:
        if data is not None:
            said = {"attempt": attempt, "offset": until - len(data), "data": base64.b64encode(data).decode()}
        name = f"id: {attempt}:{until}\n" if data is not None else ""
        return f"event: {kind}\n{name}data: {json.dumps(said)}\n\n"

    return make
