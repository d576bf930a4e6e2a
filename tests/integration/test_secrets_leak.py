"""A secret through the whole system: its job reads it, and nobody finds it elsewhere, in clear or in base64."""

import base64
import hashlib
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import engines
import pytest
from corral import Job, JobSpec
from corral.images import ImageSpec
from redis import Redis
from redis_parts import eventually
from sqlalchemy import text
from system_parts import System

MARK = f"leak-{secrets.token_hex(8)}"
SCRIPT = f"""
: {MARK}
cat /run/secrets/TOKEN; echo
base64 /run/secrets/TOKEN
printf 'x%s' "$(cat /run/secrets/TOKEN)" | base64
(cat /run/secrets/TOKEN /run/secrets/TOKEN; echo) >&2
sha256sum < /run/secrets/TOKEN
echo found > "/out/$(cat /run/secrets/TOKEN).txt"
mkfifo "/out/pipe-$(cat /run/secrets/TOKEN)"
trap 'go=1' USR1
echo ready
while [ -z "$go" ]; do sleep 0.05; done
"""
VALUE = f"tok-{secrets.token_hex(12)}.é".encode()


def forms() -> Iterator[bytes]:
    """The value, and what of it shows in base64, wherever it stands."""
    yield VALUE
    for before in range(3):
        yield base64.b64encode(bytes(before) + VALUE)[4:-4]


def assert_absent(place: str, data: bytes) -> None:
    assert not [form for form in forms() if form in data], f"the secret is in {place}"


def assert_not_below(folder: Path) -> None:
    """In no file of this file system: what is mounted below is memory, and the job's own."""
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if Path(root, name).lstat().st_dev == folder.stat().st_dev]
        assert_absent(root, os.fsencode(" ".join([*folders, *names])))
        for file in (Path(root, name) for name in names):
            if file.is_file() and not file.is_symlink():
                assert_absent(str(file), file.read_bytes())


def everything_in(client: "Redis[bytes]") -> bytes:
    """All keys and values."""
    readers: Mapping[bytes, Any] = {
        b"string": client.get,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"hash": client.hgetall,
        b"set": client.smembers,
        b"zset": lambda key: client.zrange(key, 0, -1),
        b"stream": client.xrange,
    }
    return repr([(key, readers[client.type(key)](key)) for key in client.scan_iter()]).encode()


def rows_of(system: System) -> bytes:
    with system.engine.connect() as connection:
        tables = connection.dialect.get_table_names(connection)
        rows = [tuple(row) for table in tables for row in connection.execute(text(f'SELECT * FROM "{table}"'))]
    return b"".join(cell if isinstance(cell, bytes) else str(cell).encode() for row in rows for cell in row)


def processes() -> Iterator[tuple[str, bytes]]:
    """Command line and environment of everything that runs here."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                yield entry.name, (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue  # it ended


@pytest.fixture
def system(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """On SQLite with bubblewrap, and on PostgreSQL with containers."""
    folder = tmp_path_factory.mktemp("leak")
    folder.chmod(0o711)
    folder.parent.chmod(0o711)
    is_container = not database_url.startswith("sqlite")
    if is_container:
        engines.need_engine()
    running = System(folder, database_url, level="container" if is_container else "process")
    yield running
    running.close()


@pytest.fixture
def image(system: System) -> Iterator[str]:
    """What the job runs on: the node's own files, or an image made on the spot."""
    if system.level == "process":
        yield "host"
        return
    made = engines.an_image({})
    system.admin.add_image(ImageSpec(name="busybox", reference=made))
    yield "busybox"
    engines.forget_image(made)


def assert_nowhere(system: System) -> None:
    assert_absent("the database", rows_of(system))
    with Redis(unix_socket_path=str(system.folder / "valkey.sock")) as client:
        assert_absent("Redis", everything_in(client))
    for number, said in processes():
        assert_absent(f"process {number}", said)
    assert_not_below(system.folder)
    if system.level == "container":
        names = subprocess.run(["docker", "ps", "-aq"], capture_output=True, check=True).stdout.split()
        if names:
            shown = subprocess.run(["docker", "inspect", *names], capture_output=True, check=True).stdout
            assert_absent("docker inspect", shown)


def test_a_secret_is_read_by_its_job_and_found_nowhere_else(system: System, image: str) -> None:
    system.tenant.set_secret("TOKEN", VALUE)
    spec = {
        "image": image,
        "command": ["sh", "-c", SCRIPT],
        "secrets": ["TOKEN"],
        "resources": {"memory": "64MiB", "output": "1MiB"},
        "time_limit": "2m",
    }
    job: Job = system.tenant.submit(JobSpec.model_validate(spec))
    eventually(lambda: b"ready" in b"".join(job.logs()), 60)
    assert_nowhere(system)
    system.restart("worker")  # the one that comes has fetched nothing
    _let_go()
    view = job.wait(timeout=60)
    assert (view.state, view.exit_code) == ("succeeded", 0), (view.outcome, view.error)
    log = b"".join(job.logs())
    assert hashlib.sha256(VALUE).hexdigest().encode() in log
    assert log.count(b"[redacted:TOKEN]") >= 4
    assert [each.name for each in job.artifacts] == ["[redacted:TOKEN].txt"]
    assert view.attempt is not None
    assert "pipe-[redacted:TOKEN]" in [each["name"] for each in view.attempt.skipped]
    assert {"mount /run/secrets", "secrets"} <= {fact["name"] for fact in (view.attempt.isolation or {})["facts"]}
    for shown in (log, view.model_dump_json().encode(), repr(job.events()).encode()):
        assert_absent("an answer", shown)
    assert_nowhere(system)
    assert_a_job_whose_secret_is_deleted_fails(system, image)


def assert_a_job_whose_secret_is_deleted_fails(system: System, image: str) -> None:
    system.kill("control")  # so that nothing starts meanwhile
    spec = {"image": image, "command": ["true"], "secrets": ["TOKEN"], "resources": {"output": "1MiB"}}
    job = system.tenant.submit(JobSpec.model_validate(spec))
    system.tenant.delete_secret("TOKEN")
    system.start("control")
    view = job.wait(timeout=60)
    assert (view.state, view.outcome) == ("failed", "input_error")
    assert "TOKEN was deleted" in (view.error or "")
    assert len(job.attempts()) == 1


def _let_go() -> None:
    """Tell the job, and none of the processes around it, to end."""
    for number, said in processes():
        argv = said.split(b"\0")
        if MARK.encode() in said and argv[0].endswith(b"/sh") and argv[1] == b"-c":
            os.kill(int(number), signal.SIGUSR1)
