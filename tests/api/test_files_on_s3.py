"""Files, logs and their followers, on a bucket of S3 as on a folder; and what is a bucket's own."""

import logging
import secrets
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from actors import Actor
from fastapi.testclient import TestClient
from moto.server import ThreadedMotoServer
from node_actor import Worker

from api.logs import Logs
from api.settings import ApiSettings
from api.storage import Storage
from domain.errors import NotFound, StorageAway, TooLarge
from store.assignments import Assigned
from tests.api.test_files import (
    running,
    test_an_artifact_sent_again_changes_nothing,
    test_an_input_is_kept_under_its_hash_and_reaches_the_job_that_names_it,
    test_artifacts_come_back_as_downloads,
    test_the_log_is_appended_trimmed_and_has_no_gaps,
    worker,
)

pytestmark = pytest.mark.one_engine

__all__ = [
    "running",
    "test_an_artifact_sent_again_changes_nothing",
    "test_an_input_is_kept_under_its_hash_and_reaches_the_job_that_names_it",
    "test_artifacts_come_back_as_downloads",
    "test_the_log_is_appended_trimmed_and_has_no_gaps",
    "worker",
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server that speaks S3."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    served = ThreadedMotoServer(port=0, verbose=False)
    served.start()
    host, port = served.get_host_and_port()
    yield f"http://{host}:{port}"
    served.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An empty one, with the usual variables set for it."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    made = boto3.resource("s3", endpoint_url=server).Bucket(f"corral-{secrets.token_hex(6)}")
    made.create()
    return made


@pytest.fixture
def storage_settings(server: str, bucket: Any) -> dict[str, Any]:
    return {"storage_url": f"s3://{bucket.name}/some/prefix", "storage_options": {"endpoint_url": server}}


@pytest.fixture
def storage(storage_settings: dict[str, Any]) -> Storage:
    return Storage(storage_settings["storage_url"], storage_settings["storage_options"])


def keys_in(bucket: Any) -> list[str]:
    return sorted(each.key for each in bucket.objects.all())


def test_objects_are_below_the_prefix_read_in_ranges_listed_and_removed(storage: Storage, bucket: Any) -> None:
    storage.put("logs/a/1", b"0123456789")
    storage.put("logs/a/2", b"")
    storage.put("logs/b/1", b"x")
    assert keys_in(bucket) == [f"some/prefix/logs/{name}" for name in ("a/1", "a/2", "b/1")]
    assert [storage.read("logs/a/1", *span) for span in ((0, 4), (4, 99), (10, 20), (50, 60))] == [
        b"0123",
        b"456789",
        b"",
        b"",
    ]
    assert storage.read("logs/a/2", 0, 10) == b""
    assert b"".join(storage.chunks("logs/a/1", 2, 10)) == b"23456789"
    assert storage.names("logs/a") == {"1", "2"}
    assert storage.names("logs/none") == frozenset()
    storage.remove("logs/a/1")
    storage.remove("logs/a/1")
    assert not storage.exists("logs/a/1")
    with pytest.raises(NotFound):
        storage.read("logs/a/1", 0, 1)


def test_an_upload_of_many_parts_is_there_when_it_is_kept_and_not_before(storage: Storage, bucket: Any) -> None:
    upload = storage.upload(100 * 2**20)
    for _ in range(60):
        upload.write(b"x" * 2**20)
    assert keys_in(bucket) == []
    arrived = upload.finish()
    with upload.reopened() as stream:
        assert stream.read(10) == b"x" * 10
    assert not storage.exists("kept")
    upload.keep("kept")
    upload.close()
    assert keys_in(bucket) == ["some/prefix/kept"]
    assert storage.read("kept", arrived.size_bytes - 3, arrived.size_bytes) == b"xxx"


def test_an_upload_that_is_not_kept_leaves_nothing(storage: Storage, bucket: Any) -> None:
    upload = storage.upload(10)
    upload.write(b"0123456789")
    with pytest.raises(TooLarge):
        upload.write(b"x")
    upload.close()
    assert keys_in(bucket) == []


def test_a_log_of_many_segments_is_joined_and_none_is_lost(
    storage: Storage, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.logs.SMALL_MAX", 4)
    logs = Logs(storage, 2**20)
    for number in range(6):
        logs.append("att_1", number * 10, b"%09d\n" % number)
    assert len(keys_in(bucket)) < 5
    logs.compact("att_1")
    assert len(keys_in(bucket)) == 1
    assert b"".join(logs.chunks("att_1", 0, 10_000)).splitlines()[-1] == b"%09d" % 5


def test_a_storage_that_does_not_answer_is_away_and_not_empty() -> None:
    away = Storage("s3://bucket/prefix", {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s"})
    assert not away.is_answering()
    for action in (
        lambda: away.names("logs/a"),
        lambda: away.read("x", 0, 1),
        lambda: away.exists("x"),
        lambda: away.put("x", b"1"),
    ):
        with pytest.raises(StorageAway):
            action()


def test_a_client_is_told_to_come_back_when_the_storage_is_away(
    client: TestClient, tenant: Actor, worker: Worker, running: Assigned, bucket: Any, settings: ApiSettings
) -> None:
    assert client.get("/readyz").status_code == 200
    assert worker.log(running, 0, b"hello\n").status_code == 200
    bucket.objects.all().delete()
    bucket.delete()
    assert client.get("/readyz").status_code == 503
    answer = worker.log(running, 6, b"more\n")
    assert answer.status_code in (409, 503)  # gone with its bucket, or not to be had: never taken and lost
