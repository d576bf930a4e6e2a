"""The asynchronous client sends the same calls under the same rules."""

import asyncio
import hashlib

import httpx2
import pytest
from corral import ApiError, Unreachable
from corral.following import LogChunk
from corral.jobs import ArtifactView

HELLO = "sha256:" + hashlib.sha256(b"hello").hexdigest()


def test_a_submission_keeps_its_key_over_every_retry(an_async_client, a_job, a_problem):
    client, script = an_async_client(
        httpx2.ReadError("broken"), a_problem(429, "rate_limited", {"Retry-After": "7"}),
        httpx2.Response(201, json=a_job()), httpx2.Response(200, json=a_job(state="succeeded")),
    )  # fmt: skip

    async def run():
        async with client:
            view = await client.submit(image="host", command=["true"])
            return await client.wait(view.id)

    assert asyncio.run(run()).state == "succeeded"
    assert len(set(script.headers("Idempotency-Key")[:3])) == 1
    assert script.naps[1] == 7.0


def test_lists_and_refusals(an_async_client, a_job, a_problem):
    client, _ = an_async_client(
        httpx2.Response(200, json={"items": [a_job()], "next": "c"}),
        httpx2.Response(200, json={"items": [a_job()]}), a_problem(404, "not_found"), httpx2.ReadError("broken"),
    )  # fmt: skip

    async def run():
        async with client:
            found = [view async for view in client.jobs()]
            with pytest.raises(ApiError, match="not_found"):
                await client.job_view("job_x")
            with pytest.raises(Unreachable):
                await client.release("job_x")
            return found

    assert len(asyncio.run(run())) == 2


def test_a_log_is_read_to_its_end_from_one_attempt(an_async_client):
    def part(data, until):
        return httpx2.Response(200, content=data, headers={"X-Attempt": "2", "X-Log-Offset": str(until)})

    client, script = an_async_client(part(b"one\n", 4), part(b"two", 7), part(b"", 7))

    async def run():
        async with client:
            return b"".join([data async for data in client.log("job_x")])

    assert asyncio.run(run()) == b"one\ntwo"
    assert [request.url.params["since"] for request in script.requests] == ["0", "4", "7"]


def test_a_log_is_followed_over_broken_connections(an_async_client, a_stream, an_event):
    client, script = an_async_client(
        a_stream([an_event("log", b"one ", until=4)]), httpx2.ReadError("broken"),
        a_stream([an_event("log", b"two", until=7), an_event("end", state="succeeded", exit_code=0)]),
    )  # fmt: skip

    async def run():
        async with client:
            return [event.data async for event in client.follow("job_x") if isinstance(event, LogChunk)]

    assert asyncio.run(run()) == [b"one ", b"two"]
    assert script.headers("Last-Event-ID") == [None, "1:4", "1:4"]


def test_files_go_and_come(an_async_client, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "data").write_bytes(b"x" * 1_000_000)
    stored = httpx2.Response(201, json={"sha256": HELLO, "size_bytes": 1})
    client, script = an_async_client(httpx2.ReadError("broken"), stored, httpx2.Response(200, content=b"hello"))

    async def run():
        async with client:
            await client.upload_input(tmp_path / "in")
            view = ArtifactView(name="a", size_bytes=5, sha256=HELLO, attempt_id="att_x")
            return await client.download("job_x", view, tmp_path / "out")

    assert asyncio.run(run()).read_bytes() == b"hello"
    assert script.requests[0].content == script.requests[1].content
    assert script.headers("Content-Length")[:2] == [str(len(script.requests[0].content))] * 2
