"""Accepted submissions a second, through one API process, each durable before its answer; on SQLite and PostgreSQL."""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError
from sqlmodel import Session

from bench.load import Load, message, run
from bench.report import Bound, Report, Unmeasurable, percentile
from bench.submit_server import FLOOR, ROWS
from corrald.valkey import private_server
from domain.ids import TenantId
from domain.quota_terms import GpuTerms, QuotaRules
from store.engine import open_engine, writing
from store.images import admit_image
from store.keys import mint_key
from store.migrate import migrate
from store.tenants import create_tenant

CLIENTS = (1, 16, 64)
TENANTS = 4
ROUNDS = 3
SECONDS = 2.5
"""Of each stretch: floor and submissions in turn, so that both see the same machine."""
WARM_UP_SECONDS = 1.0
BATCH = 1000
BATCHES = 5
START_SECONDS = 120
LEAST_SHARE = 0.5
"""Of the floor, that must be reached."""
BATCH_PER_S = 2000
NO_BOUND = 10**9
JOB = {
    "image": "bench",
    "command": ["python", "train.py", "--epochs", "10"],
    "resources": {"gpus": 1, "gpu_model": ["H100"], "cpus": 8, "memory": "64GiB", "scratch": "100GiB"},
    "env": {"EPOCHS": "10"},
    "labels": {"project": "vision"},
    "time_limit": "4h",
}
START_POSTGRES = (
    "start one (apt-get install postgresql; service postgresql start) and name it: --postgres postgresql://…"
)


@dataclass(frozen=True, slots=True)
class Served:
    """An API that runs for the benchmark's sake, and the keys of its tenants."""

    port: int
    keys: Sequence[str]

    def submission(self, client: int) -> bytes:
        """A client's next submission, as the SDK would send it."""
        return message("/v1/jobs", _JOB, self._headers(client))

    def batch(self, client: int) -> bytes:
        """A thousand jobs."""
        return message("/v1/jobs/batch", _BATCH, self._headers(client))

    def bare(self, _client: int) -> bytes:
        """One row."""
        return message(FLOOR, _JOB, {})

    def _headers(self, client: int) -> dict[str, str]:
        key = self.keys[client % len(self.keys)]
        return {"Authorization": f"Bearer {key}", "Idempotency-Key": uuid.uuid4().hex}


_JOB = json.dumps(JOB).encode()
_BATCH = json.dumps({"jobs": [JOB] * BATCH}).encode()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where PostgreSQL is."""
    parser.add_argument(
        "--postgres",
        metavar="URL",
        default=os.environ.get("CORRAL_TEST_POSTGRES_URL"),
        help="a PostgreSQL whose user may create databases (default: CORRAL_TEST_POSTGRES_URL)",
    )


def measure(arguments: argparse.Namespace) -> Report:
    """Both engines, at 1, 16 and 64 clients.

    Raises:
        Unmeasurable: there is no PostgreSQL.
    """
    figures: dict[str, float] = {}
    floors: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder, postgres(arguments.postgres) as postgres_url:
        for engine, url in (("sqlite", f"sqlite:///{folder}/corral.db"), ("postgres", postgres_url)):
            with serving(Path(folder), url) as served:
                for clients in CLIENTS:
                    _measure_at(served, f"{engine}_c{clients}", clients, figures, floors)
                figures[f"{engine}_batch_jobs_per_s"] = _batches(served)
    targets: dict[str, Bound] = {
        name: {"min": round(floor * LEAST_SHARE, 1)} for name, floor in floors.items() if name.endswith("_per_s")
    }
    targets |= {f"{engine}_batch_jobs_per_s": {"min": BATCH_PER_S} for engine in ("sqlite", "postgres")}
    return Report("submit", figures, floors, targets)


def _measure_at(served: Served, name: str, clients: int, figures: dict[str, float], floors: dict[str, float]) -> None:
    loads: dict[str, list[Load]] = {"floor": [], "submit": []}
    run(served.port, clients, WARM_UP_SECONDS, served.submission)
    for _ in range(ROUNDS):
        loads["floor"].append(run(served.port, clients, SECONDS, served.bare))
        loads["submit"].append(run(served.port, clients, SECONDS, served.submission))
    for kind, found in (("floor", floors), ("submit", figures)):
        latencies = [each for load in loads[kind] for each in load.latencies_ms]
        found[f"{name}_per_s"] = median(load.per_s for load in loads[kind])
        found[f"{name}_p50_ms"] = percentile(latencies, 50)
        found[f"{name}_p99_ms"] = percentile(latencies, 99)


def _batches(served: Served) -> float:
    """Jobs a second that one client gets in with one batch after the other."""
    rates = []
    for _ in range(ROUNDS):
        began, answered = time.perf_counter(), 0
        while answered < BATCHES:
            answered += len(run(served.port, 1, 0.001, served.batch).latencies_ms)
        rates.append(answered * BATCH / (time.perf_counter() - began))
    return median(rates)


@contextmanager
def serving(folder: Path, url: str) -> Iterator[Served]:
    """One API process on an empty database, with a Redis of its own for its hints."""
    keys = _set_up(url)
    sockets = folder / f"valkey-{uuid.uuid4().hex[:6]}"
    sockets.mkdir()
    redis = private_server(sockets / "redis.sock")
    port = _free_port()
    settings = {
        "CORRAL_DATABASE_URL": url,
        "CORRAL_REDIS_URL": f"unix://{sockets / 'redis.sock'}",
        "CORRAL_STORAGE_URL": f"file://{folder / 'storage'}",
        "CORRAL_RATE_SUBMISSIONS": "",  # what one server can do is asked, not what one tenant may
        "CORRAL_RATE_OPEN": "",  # the floor shows no key
    }
    with (
        _process(redis.argv),
        _process((sys.executable, "-m", "bench.submit_server", str(port)), settings) as server,
    ):
        _await_port(port, server)
        yield Served(port, keys)


def _set_up(url: str) -> list[str]:
    engine = open_engine(url)
    migrate(engine)
    ROWS.create(engine)
    with writing(engine) as session:
        admit_image(session, "bench", f"sha256:{'a' * 64}", None, None)
        tenants = [
            create_tenant(session, f"bench-{n}", None, 1, "container", 3_600_000_000, _RULES) for n in range(TENANTS)
        ]
        keys = [mint_key(session, TenantId(tenant.id), "bench")[1] for tenant in tenants]
    engine.dispose()
    return keys


def _a_key(session: Session, name: str) -> str:
    tenant = create_tenant(session, name, None, 1, "container", 3_600_000_000, _RULES)
    return mint_key(session, TenantId(tenant.id), "bench")[1]


_RULES = QuotaRules(
    gpus={"*": GpuTerms(None)},
    most_queued=NO_BOUND,
    most_running=NO_BOUND,
    longest_time_limit_us=7 * 86_400_000_000,
    highest_priority=3,
    isolation_levels=("process", "container"),
    images=None,
)


@contextmanager
def _process(argv: Sequence[str], settings: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(argv, env={**os.environ, **(settings or {})}, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _await_port(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise Unmeasurable("the API did not start; see its messages above") from None
            time.sleep(0.05)
        else:
            return


@contextmanager
def postgres(url: str | None) -> Iterator[str]:
    """The URL of a new, empty database there, which is removed at the end."""
    if not url:
        raise Unmeasurable(f"PostgreSQL is needed; {START_POSTGRES}")
    server = make_url(url).set(drivername="postgresql+psycopg")
    name = f"corral_bench_{uuid.uuid4().hex[:12]}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with admin.connect() as connection:
            connection.execute(text(f'CREATE DATABASE "{name}"'))
    except OperationalError as error:
        raise Unmeasurable(f"PostgreSQL does not answer ({error.orig}); {START_POSTGRES}") from None
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
        admin.dispose()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
