"""Logs that are followed while they grow: over a real socket, for a stream is not one in a test client."""

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from actors import Actor, a_job
from fastapi.testclient import TestClient
from node_actor import Worker, a_worker, place
from sqlalchemy import Engine

from api.app import create_app
from api.settings import ApiSettings
from store.assignments import Assigned

pytestmark = pytest.mark.one_engine

FOLLOWERS = 120
DEADLINE_SECONDS = 60


@contextmanager
def serving(settings: ApiSettings) -> Iterator[str]:
    """Another API process, as far as it shares nothing but the database and the storage; its address."""
    app = create_app(settings)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(256)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            deadline = time.monotonic() + DEADLINE_SECONDS
            while not server.started:
                assert time.monotonic() < deadline
                assert thread.is_alive()
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def worker(admin: Actor, client: TestClient) -> Worker:
    """A node that joined."""
    return a_worker(admin, client)


@pytest.fixture
def running(engine: Engine, worker: Worker, tenant: Actor) -> Assigned:
    """A job's attempt that runs."""
    job_id = tenant.made("/jobs", a_job(retry={"limit": 1, "on": ["failure"]}))["id"]
    assigned = place(engine, worker, job_id)
    worker.start(assigned)
    return assigned


def job_of(tenant: Actor) -> str:
    found: str = tenant.get("/jobs").json()["items"][0]["id"]
    return found


def followed(tenant: Actor, query: str = "", headers: dict[str, str] | None = None) -> list[tuple[str, str, Any]]:
    """(event, id, data) of a job that is over: the whole stream."""
    answer = tenant.get(f"/jobs/{job_of(tenant)}/logs?follow=true{query}", headers=headers or {})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = []
    for block in answer.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if fields:
            events.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
    return events


def log_of(events: list[tuple[str, str, Any]]) -> bytes:
    return b"".join(base64.b64decode(data["data"]) for event, _, data in events if event == "log")


def test_a_job_that_is_over_is_told_in_order_and_the_stream_closes(
    tenant: Actor, worker: Worker, running: Assigned
) -> None:
    everything = bytes(range(256)) * 1000
    worker.log(running, 0, everything)
    worker.end(running)
    events = followed(tenant)
    assert log_of(events) == everything
    assert [event for event, _, _ in events][-2:] == ["state", "end"]
    assert events[-1][2] == {"state": "succeeded", "exit_code": 0}
    assert events[-3][1] == f"1:{len(everything)}"


def test_a_broken_stream_is_taken_up_where_it_broke(tenant: Actor, worker: Worker, running: Assigned) -> None:
    worker.log(running, 0, b"0123456789")
    worker.end(running)
    assert log_of(followed(tenant, headers={"Last-Event-ID": "1:4"})) == b"456789"
    assert log_of(followed(tenant, "&since=7")) == b"789"
    assert tenant.get(f"/jobs/{job_of(tenant)}/logs?follow=true", headers={"Last-Event-ID": "x"}).status_code == 422


def test_following_goes_on_to_the_next_attempt(
    tenant: Actor, worker: Worker, running: Assigned, engine: Engine
) -> None:
    worker.log(running, 0, b"first")
    worker.end(running, exit_code=1)
    again = place(engine, worker, job_of(tenant))
    worker.start(again)
    worker.log(again, 0, b"second")
    worker.end(again)
    events = followed(tenant)
    assert log_of(events) == b"firstsecond"
    assert [id for event, id, _ in events if event == "log"] == ["1:5", "2:6"]
    assert log_of(followed(tenant, headers={"Last-Event-ID": "2:3"})) == b"ond"


def test_more_than_a_hundred_followers_see_a_log_as_it_grows(
    settings: ApiSettings, tenant: Actor, worker: Worker, running: Assigned
) -> None:
    job_id, stop = job_of(tenant), threading.Event()
    threads_before = threading.active_count()

    with serving(settings) as address:
        begun = threading.Semaphore(0)

        def write() -> None:
            """Once all follow: three pieces, each after the one before was stored, and the end."""
            for _ in range(FOLLOWERS):
                assert begun.acquire(timeout=DEADLINE_SECONDS)
            assert threading.active_count() < threads_before + 60
            for number in range(3):
                worker.log(running, 6 * number, b"piece\n")
            worker.end(running)
            stop.set()

        writer = threading.Thread(target=write)
        writer.start()
        logs = anyio.run(_follow_all, address, job_id, tenant.key, begun)
        writer.join()
    assert stop.is_set()
    assert logs == [b"piece\n" * 3] * FOLLOWERS


async def _follow_all(address: str, job_id: str, key: str, begun: threading.Semaphore) -> list[bytes]:
    logs = [b""] * FOLLOWERS
    limits = httpx2.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=address, headers=headers, limits=limits, timeout=DEADLINE_SECONDS) as client:

        async def follow(number: int) -> None:
            async with client.stream("GET", f"/v1/jobs/{job_id}/logs?follow=true") as answer:
                assert answer.status_code == 200
                is_first = True
                async for line in answer.aiter_lines():
                    if is_first:
                        begun.release()
                        is_first = False
                    if line.startswith("data: ") and '"data"' in line:
                        logs[number] += base64.b64decode(json.loads(line[6:])["data"])

        with anyio.fail_after(DEADLINE_SECONDS):
            async with anyio.create_task_group() as followers:
                for number in range(FOLLOWERS):
                    followers.start_soon(follow, number)
    return logs


def test_followers_are_bounded_and_let_go(settings: ApiSettings, tenant: Actor, running: Assigned) -> None:
    with serving(settings.model_copy(update={"followers_max": 1})) as address:
        path = f"{address}/v1/jobs/{job_of(tenant)}/logs?follow=true"
        headers = {"Authorization": f"Bearer {tenant.key}"}
        with httpx2.stream("GET", path, headers=headers) as first:
            lines = first.iter_lines()  # kept: an iterator that is dropped closes the stream
            next(lines)
            refused = httpx2.get(path, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (429, "limit")
        deadline = time.monotonic() + DEADLINE_SECONDS
        while httpx2.get(path.replace("?follow=true", ""), headers=headers).status_code != 200 or _is_full(
            path, headers
        ):
            assert time.monotonic() < deadline


def _is_full(path: str, headers: dict[str, str]) -> bool:
    with httpx2.stream("GET", path, headers=headers) as answer:
        return answer.status_code == 429


def test_a_revoked_key_follows_no_longer(settings: ApiSettings, tenant: Actor, running: Assigned) -> None:
    made = tenant.made("/keys", {"name": "follower"})
    with serving(settings) as address:
        headers = {"Authorization": f"Bearer {made['key']}"}
        path = f"{address}/v1/jobs/{job_of(tenant)}/logs?follow=true"
        with httpx2.stream("GET", path, headers=headers, timeout=DEADLINE_SECONDS) as answer:
            lines = answer.iter_lines()
            next(lines)
            assert tenant.send("DELETE", f"/keys/{made['id']}").status_code == 204
            assert "event: end" not in list(lines)


def test_storage_is_shared_so_any_process_serves_any_log(
    settings: ApiSettings, tenant: Actor, worker: Worker, running: Assigned
) -> None:
    worker.log(running, 0, b"written to one")
    with serving(settings) as address:
        path = f"{address}/v1/jobs/{job_of(tenant)}/logs"
        assert httpx2.get(path, headers={"Authorization": f"Bearer {tenant.key}"}).content == b"written to one"
