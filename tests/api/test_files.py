"""Inputs, logs and artifacts: bytes in, the same bytes out, and nothing outside its place."""

import hashlib
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from actors import Actor, a_job, a_key
from fastapi.testclient import TestClient
from node_actor import Worker, a_worker, place
from sqlalchemy import Engine
from tars import tar_of, tar_with, tar_with_pax

from api.logs import SMALL_MAX, Logs
from api.settings import ApiSettings
from api.storage import Storage
from store.assignments import Assigned

pytestmark = pytest.mark.one_engine

TAR = {"Content-Type": "application/x-tar"}


@pytest.fixture
def worker(admin: Actor, client: TestClient) -> Worker:
    """A node that joined."""
    return a_worker(admin, client)


@pytest.fixture
def running(engine: Engine, worker: Worker, tenant: Actor) -> Assigned:
    """A job's attempt that runs."""
    job_id = tenant.made("/jobs", a_job(resources={"output": "1MiB"}))["id"]
    assigned = place(engine, worker, job_id)
    worker.start(assigned)
    return assigned


def job_of(tenant: Actor) -> str:
    found: str = tenant.get("/jobs").json()["items"][0]["id"]
    return found


def stored(settings: ApiSettings) -> list[Path]:
    return [path for path in Path(settings.storage_url.removeprefix("file://")).rglob("*") if path.is_file()]


def test_an_input_is_kept_under_its_hash_and_reaches_the_job_that_names_it(
    tenant: Actor, worker: Worker, engine: Engine, a_tar: bytes
) -> None:
    view = tenant.post("/inputs", content=a_tar, headers=TAR | a_key()).json()
    assert view == {"sha256": f"sha256:{hashlib.sha256(a_tar).hexdigest()}", "size_bytes": len(a_tar)}
    assert tenant.post("/inputs", content=a_tar, headers=TAR).json() == view
    with_input, without = (tenant.made("/jobs", a_job(inputs=inputs))["id"] for inputs in ([view["sha256"]], []))
    assigned, other = place(engine, worker, with_input), place(engine, worker, without)
    assert worker.claim(assigned)["inputs"] == [view["sha256"]]
    path = f"/node/inputs/{view['sha256']}"
    assert worker.actor.get(f"{path}?attempt_id={assigned.attempt_id}").content == a_tar
    assert worker.actor.get(f"{path}?attempt_id={other.attempt_id}").status_code == 404
    worker.end(assigned, "cancelled", None)
    assert worker.actor.get(f"{path}?attempt_id={assigned.attempt_id}").status_code == 404


def test_one_key_with_two_inputs_is_refused(tenant: Actor, a_tar: bytes) -> None:
    headers = TAR | a_key()
    assert tenant.post("/inputs", content=a_tar, headers=headers).status_code == 201
    assert tenant.post("/inputs", content=a_tar, headers=headers).status_code == 201
    assert tenant.post("/inputs", content=tar_of({"b": b""}), headers=headers).status_code == 409


GOOD = {
    "pax": tar_of({"a/b.txt": b"x" * 1000, "é.txt": b"", "x" * 150 + "/y": b"1"}),
    "gnu": tar_of({"a/b.txt": b"x", "x" * 150 + "/y": b"1"}, tarfile.GNU_FORMAT),
    "ustar": tar_of({"a/b.txt": b"x"}, tarfile.USTAR_FORMAT),
    "a directory": tar_with(tarfile.DIRTYPE, "d"),
    "no files": tar_of({}),
}
BAD = {
    "nothing": b"",
    "text": b"hello",
    "zip": b"PK\x03\x04" + b"x" * 2000,
    "gzip": b"\x1f\x8b" + b"x" * 2000,
    "noise": bytes(range(256)) * 8,
    "cut short": tar_of({"a": b"x" * 5000})[:2000],
    "a symbolic link": tar_with(tarfile.SYMTYPE, target="/etc/passwd"),
    "a hard link": tar_with(tarfile.LNKTYPE, target="y"),
    "a device": tar_with(tarfile.CHRTYPE),
    "a block device": tar_with(tarfile.BLKTYPE),
    "a FIFO": tar_with(tarfile.FIFOTYPE),
    "sparse": tar_with(tarfile.GNUTYPE_SPARSE),
    "dots": tar_of({"../x": b""}),
    "dots inside": tar_of({"a/../../x": b""}),
    "long dots": tar_of({"a" * 200 + "/../x": b""}),
    "absolute": tar_of({"/etc/x": b""}),
    "a wrong checksum": b"y" + tar_of({"x": b""})[1:],
    "a long part": tar_of({"x" * 300: b""}),
    "a header of ten thousand lines": tar_with_pax(b"5 a=\n" * 10_000),
    "a header of no length": tar_with_pax(b"0 a=\n"),
    "a header with too short a length": tar_with_pax(b"2 a=\n"),
    "a header with too long a length": tar_with_pax(b"9 a=\n"),
    "a header without a space": tar_with_pax(b"5555"),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_inputs(fuzzed: Actor, name: str) -> None:
    assert fuzzed.post("/inputs", content=GOOD[name], headers=TAR).status_code == 201


@pytest.mark.parametrize("name", BAD)
def test_bad_inputs(fuzzed: Actor, name: str) -> None:
    answer = fuzzed.post("/inputs", content=BAD[name], headers=TAR)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


def test_a_refused_input_leaves_nothing(tenant: Actor, settings: ApiSettings) -> None:
    assert tenant.post("/inputs", content=BAD["a symbolic link"], headers=TAR).status_code == 422
    assert tenant.post("/inputs", content=GOOD["pax"], headers={"Content-Type": "text/plain"}).status_code == 415
    assert stored(settings) == []


def test_uploads_over_their_caps_are_refused_and_leave_nothing(
    settings: ApiSettings, tenant: Actor, worker: Worker, running: Assigned
) -> None:
    answer = worker.artifact(running, "big", b"x" * (2**20 + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    answer = worker.log(running, 0, b"x" * (settings.log_post_bytes_max + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert stored(settings) == []


def test_the_log_is_appended_trimmed_and_has_no_gaps(tenant: Actor, worker: Worker, running: Assigned) -> None:
    everything = bytes(range(256)) * 4
    assert worker.log(running, 0, everything[:100]).json() == {"size_bytes": 100}
    assert worker.log(running, 0, everything[:100]).json() == {"size_bytes": 100}
    assert worker.log(running, 50, everything[50:200]).json() == {"size_bytes": 200}
    gap = worker.log(running, 300, everything[300:])
    assert (gap.status_code, gap.json()["code"]) == (409, "log_gap")
    assert gap.json()["errors"] == [{"size_bytes": "200"}]
    assert worker.log(running, 200, everything[200:]).json() == {"size_bytes": 1024}
    path = f"/jobs/{job_of(tenant)}/logs"
    whole = tenant.get(path)
    assert whole.content == everything
    assert (whole.headers["x-log-offset"], whole.headers["x-attempt"]) == ("1024", "1")
    assert tenant.get(f"{path}?since=1000").content == everything[1000:]
    assert tenant.get(f"{path}?since=5000").content == b""
    assert tenant.get(f"{path}?tail=10&attempt=1").content == everything[-10:]
    assert tenant.get(f"{path}?tail=10&since=1").status_code == 422
    assert tenant.get(f"{path}?attempt=2").status_code == 404
    worker.end(running)
    assert tenant.get(path).content == everything


def test_many_segments_are_joined_and_none_is_lost(tmp_path: Path) -> None:
    logs = Logs(Storage(f"file://{tmp_path}"), 2**30)
    expected = b""
    for number in range(3 * SMALL_MAX):
        piece = b"%d\n" % number
        assert logs.append("att_x", len(expected), piece) == len(expected) + len(piece)
        expected += piece
        assert len(list((tmp_path / "logs/att_x").iterdir())) < SMALL_MAX
    assert b"".join(logs.chunks("att_x", 0, 10**9)) == expected
    assert b"".join(logs.chunks("att_x", 7, 100)) == expected[7:100]
    logs.compact("att_x")
    assert len(list((tmp_path / "logs/att_x").iterdir())) == 1
    assert b"".join(logs.chunks("att_x", 0, 10**9)) == expected
    assert logs.append("att_x", len(expected), b"more") == len(expected) + 4


def test_whoever_reads_while_segments_are_joined_misses_nothing(tmp_path: Path) -> None:
    logs = Logs(Storage(f"file://{tmp_path}"), 2**30)
    expected = b"".join(b"%06d\n" % number for number in range(40))
    for round_number in range(30):
        attempt_id = f"att_{round_number}"
        for begin in range(0, len(expected), 7):
            logs.append(attempt_id, begin, expected[begin : begin + 7])
        with ThreadPoolExecutor(4) as pool:
            joined = pool.submit(logs.compact, attempt_id)
            reads = [pool.submit(_whole, logs, attempt_id) for _ in range(12)]
            joined.result()
            assert {each.result() for each in reads} == {expected}


def _whole(logs: Logs, attempt_id: str) -> bytes:
    return b"".join(logs.chunks(attempt_id, 0, logs.size(attempt_id)))


def test_a_job_without_an_attempt_has_an_empty_log(tenant: Actor) -> None:
    job_id = tenant.made("/jobs", a_job())["id"]
    answer = tenant.get(f"/jobs/{job_id}/logs")
    assert (answer.content, answer.headers["x-log-offset"], "x-attempt" in answer.headers) == (b"", "0", False)


def test_artifacts_come_back_as_downloads(tenant: Actor, worker: Worker, running: Assigned) -> None:
    data = bytes(range(256)) * 600
    for name in ("out.bin", "deep/er/out.bin", "<script>.html", 'a"b;c.txt', "é🦄 x", "empty"):
        content = b"" if name == "empty" else data
        assert worker.artifact(running, name, content).status_code == 200
        answer = tenant.get(f"/jobs/{job_of(tenant)}/artifacts/{quoted(name)}")
        assert answer.content == content
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        disposition = answer.headers["content-disposition"]
        assert disposition.startswith("attachment; filename=")
        assert disposition.isascii()
        assert disposition.count('"') == 2
    assert tenant.get(f"/jobs/{job_of(tenant)}/artifacts/none").status_code == 404


def quoted(name: str) -> str:
    return "".join(char if char == "/" else "".join(f"%{byte:02X}" for byte in char.encode()) for char in name)


def test_an_artifact_sent_again_changes_nothing(tenant: Actor, worker: Worker, running: Assigned) -> None:
    first = worker.artifact(running, "a", b"1")
    assert worker.artifact(running, "a", b"1").json() == first.json()
    assert worker.artifact(running, "a", b"2").json()["code"] == "conflict"
    wrong = worker.artifact(running, "b", b"2", "sha256:" + "0" * 64)
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid")
    assert len(tenant.get(f"/jobs/{job_of(tenant)}/artifacts").json()["items"]) == 1


def test_artifacts_with_hostile_names_are_refused(settings: ApiSettings, worker: Worker, running: Assigned) -> None:
    for name in ("../x", "/x", "a//b", ".", "a/..", "a\nb", "a\0b", "", "\x1b[2J", "x" * 5000):
        assert worker.artifact(running, name, b"x").status_code == 422
    assert stored(settings) == []
