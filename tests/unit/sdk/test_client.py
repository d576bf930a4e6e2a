"""A request is sent again where that helps, and never does a thing twice."""

import hashlib
import io
import tarfile
from pathlib import Path

import httpx2
import pytest
from corral import ApiError, Job, JobSpec, JobView, Unreachable, UnsafeDownload
from corral.call import place
from corral.jobs import ArtifactView

HELLO = "sha256:" + hashlib.sha256(b"hello").hexdigest()
SPEC = JobSpec(image="host", command=["true"], time_limit="5m")


def created(a_job):
    return httpx2.Response(201, json=a_job())


def test_a_submission_keeps_its_key_over_every_retry(a_client, a_job, a_problem):
    client, script = a_client(
        httpx2.ReadError("broken"), httpx2.Response(502), a_problem(503, "starting"), httpx2.ConnectError("refused"),
        created(a_job),
    )  # fmt: skip
    assert client.submit(SPEC).view.state == "queued"
    keys = script.headers("Idempotency-Key")
    assert len(keys) == 5
    assert len(set(keys)) == 1
    assert keys[0]
    assert {request.content for request in script.requests} == {
        b'{"image":"host","command":["true"],"time_limit":"5m"}'
    }


def test_two_submissions_have_two_keys(a_client, a_job):
    client, script = a_client(created(a_job), created(a_job))
    client.submit(SPEC)
    client.submit(image="host", command=["true"])
    assert len(set(script.headers("Idempotency-Key"))) == 2
    assert set(script.headers("Authorization")) == {"Bearer key"}


def test_retry_after_is_honoured(a_client, a_job, a_problem):
    client, script = a_client(a_problem(429, "rate_limited", {"Retry-After": "7"}), created(a_job))
    client.submit(SPEC)
    assert script.naps == [7.0]


def test_a_wait_beyond_the_patience_is_not_waited(a_client, a_problem):
    client, script = a_client(a_problem(429, "rate_limited", {"Retry-After": "61"}))
    with pytest.raises(ApiError) as refusal:
        client.submit(SPEC)
    assert (refusal.value.code, script.naps) == ("rate_limited", [])


def test_it_gives_up_when_its_patience_ends(a_client):
    client, script = a_client(*[httpx2.ConnectError("refused")] * 1000)
    with pytest.raises(Unreachable, match="refused"):
        client.whoami()
    assert 1 < len(script.requests) < 1000
    assert sum(script.naps) <= 60


def test_a_refusal_is_not_repeated_and_tells_all(a_client, a_problem):
    client, script = a_client(
        a_problem(422, "invalid_body", detail="it is wrong", help="fix it", errors=[{"where": "image", "why": "no"}])
    )
    with pytest.raises(ApiError) as refusal:
        client.submit(SPEC)
    error = refusal.value
    assert (error.code, error.status, error.detail, error.help) == ("invalid_body", 422, "it is wrong", "fix it")
    assert error.errors == [{"where": "image", "why": "no"}]
    assert len(script.requests) == 1


def test_what_is_not_ours_is_still_a_problem(a_client):
    client, _ = a_client(httpx2.Response(404, text="<html>"))
    with pytest.raises(ApiError) as refusal:
        client.whoami()
    assert (refusal.value.code, refusal.value.status) == ("http_404", 404)


def test_a_redirect_is_not_followed_with_the_key(a_client):
    client, script = a_client(httpx2.Response(307, headers={"Location": "https://evil.test/"}))
    with pytest.raises(ApiError, match="http_307"):
        client.whoami()
    assert len(script.requests) == 1


def test_an_answer_that_is_not_understood_says_so(a_client):
    client, _ = a_client(httpx2.Response(200, text="<html>"))
    with pytest.raises(ApiError, match="unreadable_answer"):
        client.whoami()


def test_a_hold_is_not_sent_again_when_it_may_have_arrived(a_client, a_job):
    client, script = a_client(httpx2.ReadError("broken"))
    with pytest.raises(Unreachable):
        client.hold("job_x")
    client, script = a_client(httpx2.ConnectError("refused"), httpx2.Response(200, json=a_job(state="held")))
    assert client.hold("job_x").state == "held"
    assert len(script.requests) == 2


def test_pages_are_asked_for_as_they_are_read(a_client, a_job):
    one = httpx2.Response(200, json={"items": [a_job(), a_job()], "next": "c/1"})
    two = httpx2.Response(200, json={"items": [a_job()], "next": None})
    client, script = a_client(one, two)
    found = client.jobs(state="queued")
    next(found)
    assert len(script.requests) == 1
    assert len(list(found)) == 2
    assert [dict(r.url.params) for r in script.requests] == [
        {"state": "queued", "limit": "200"}, {"state": "queued", "limit": "200", "cursor": "c/1"}
    ]  # fmt: skip


def test_waiting_returns_at_the_end(a_client, a_job):
    answers = [httpx2.Response(200, json=a_job(state=state)) for state in ("queued", "running", "failed")]
    client, script = a_client(created(a_job), *answers)
    assert client.submit(SPEC).wait().state == "failed"
    assert len(script.naps) == 2


def test_waiting_ends_with_its_time(a_client, a_job):
    client, _ = a_client(httpx2.Response(200, json=a_job(state="running")))
    with pytest.raises(TimeoutError, match="running"):
        client.wait("job_x", timeout=0)


def test_a_log_is_read_to_its_end_from_one_attempt(a_client, a_job):
    def part(data, until):
        return httpx2.Response(200, content=data, headers={"X-Attempt": "2", "X-Log-Offset": str(until)})

    client, script = a_client(part(b"\x00\xffone\n", 6), part(b"two", 9), part(b"", 9))
    assert b"".join(client.log("job_x")) == b"\x00\xffone\ntwo"
    assert [dict(r.url.params) for r in script.requests] == [
        {"since": "0"}, {"attempt": "2", "since": "6"}, {"attempt": "2", "since": "9"}
    ]  # fmt: skip


def test_an_upload_is_sent_whole_again(a_client, tmp_path: Path):
    (tmp_path / "data").write_bytes(b"x" * 100_000)
    stored = httpx2.Response(201, json={"sha256": HELLO, "size_bytes": 1})
    client, script = a_client(httpx2.WriteError("broken"), stored)
    client.upload_input(tmp_path)
    first, second = (request.content for request in script.requests)
    assert first == second
    assert len(set(script.headers("Idempotency-Key"))) == 1
    assert script.headers("Content-Length") == [str(len(first))] * 2
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        assert tar.getnames() == ["data"]


def test_a_download_is_tried_again_and_checked(a_client, a_job, tmp_path: Path):
    view = {"name": "a dir/b#c", "size_bytes": 5, "sha256": HELLO, "attempt_id": "att_x"}
    listing = httpx2.Response(200, json={"items": [view], "next": None})
    client, script = a_client(listing, httpx2.Response(503), httpx2.Response(200, content=b"hello"))
    job = Job(client, JobView.model_validate(a_job()))
    [artifact] = job.artifacts
    assert artifact.download(tmp_path).read_bytes() == b"hello"
    assert script.requests[-1].url.raw_path == f"/v1/jobs/{job.id}/artifacts/a%20dir/b%23c".encode()
    assert (tmp_path / "a dir" / "b#c").exists()


def test_an_unsafe_name_is_not_even_asked_for(a_client, tmp_path: Path):
    client, script = a_client()
    view = ArtifactView(name="../up", size_bytes=5, sha256=HELLO, attempt_id="att_x")
    with pytest.raises(UnsafeDownload):
        client.download("job_x", view, tmp_path)
    assert script.requests == []


@pytest.mark.parametrize("segment", ["", ".", ".."])
def test_an_id_never_climbs_out_of_its_place(segment):
    with pytest.raises(ValueError, match="names nothing"):
        place("jobs", segment)


def test_an_id_with_a_slash_stays_one_segment():
    assert place("jobs", "../keys") == "/v1/jobs/..%2Fkeys"


def test_of_two_attempts_files_of_a_name_the_newest_is_the_jobs(a_client, a_job):
    views = [
        {"name": name, "size_bytes": 5, "sha256": HELLO, "attempt_id": attempt}
        for name, attempt in (("a", "att_1"), ("b", "att_1"), ("a", "att_2"))
    ]
    client, _ = a_client(httpx2.Response(200, json={"items": views}))
    found = Job(client, JobView.model_validate(a_job())).artifacts
    assert {artifact.name: artifact.view.attempt_id for artifact in found} == {"a": "att_2", "b": "att_1"}


def test_an_admin_says_whose_it_is(a_client, a_job, tmp_path: Path):
    client, script = a_client(httpx2.Response(201, json={"sha256": HELLO, "size_bytes": 1}), created(a_job))
    client.upload_input(tmp_path, tenant_id="ten_x")
    client.submit(SPEC, tenant_id="ten_x")
    assert [dict(request.url.params) for request in script.requests] == [{"tenant_id": "ten_x"}] * 2
