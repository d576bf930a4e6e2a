"""A real API on SQLite, a door that can be shut before it, and worker processes that can be killed at a chosen step."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import services
import uvicorn
from actors import Actor, a_tenant
from books import assert_books_agree
from builders import a_placement
from engines import until_no_runner
from redis_parts import eventually
from sqlalchemy import Engine
from sqlmodel import col, select

from api.app import create_app
from api.settings import ApiSettings
from domain.ids import NodeId
from domain.levels import Level
from sandbox.bubblewrap import BubblewrapSandbox
from store import node_tokens
from store.assignments import Assigned, assign, lock_for
from store.attempts import order_stop
from store.ends import lose
from store.engine import open_engine, reading, writing
from store.keys import mint_key
from store.tables import Allocation, Attempt, Gpu, Job, Node

ROOT = Path(__file__).parents[1]
NODE_PROCESS = ROOT / "tests" / "faults" / "node_process.py"
NO_REDIS = "unix:///nonexistent/corral-test-redis.sock"


@cache
def what_bubblewrap_lacks() -> str:
    """Why sandboxes of the level `process` do not work on this machine; empty if they do."""
    with tempfile.TemporaryDirectory() as root:
        probe = BubblewrapSandbox(Path(root), NodeId("nod_test")).probe()
    return "" if probe.is_offered else probe.reasons[0]


@contextlib.contextmanager
def a_world(template: Path, folder: Path) -> Iterator["World"]:
    """A world whose node has joined; the test is skipped where no sandbox works."""
    if reason := what_bubblewrap_lacks():
        services.missing(f"bubblewrap does not work here: {reason}")
    database = folder / "corral.db"
    database.write_bytes(template.read_bytes())
    world = World(folder, database)
    try:
        with world.worker():
            eventually(world.has_free_device, 30)
        yield world
    finally:
        world.close()


class Door:
    """A TCP port before another one; while it is shut, connections are cut and refused."""

    def __init__(self, behind: int) -> None:
        self._behind = behind
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_open = True
        self._pairs: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self) -> None:
        """Nobody gets through, nor goes on."""
        with self._lock:
            self._is_open = False
            for end in self._pairs:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            self._pairs.clear()

    def open(self) -> None:
        """As before."""
        self._is_open = True

    def close(self) -> None:
        """For good."""
        self.shut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                outside, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._is_open:
                    outside.close()
                    continue
                inside = socket.create_connection(("127.0.0.1", self._behind))
                self._pairs += [outside, inside]
            ways = (threading.Event(), threading.Event())
            for source, target, own, other in ((outside, inside, *ways), (inside, outside, *reversed(ways))):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=_carry, args=(source, target, other, own), daemon=True).start()


class World:
    """One API, one database, one tenant; and one node's data folder, in which workers come and go."""

    def __init__(self, folder: Path, database: Path) -> None:
        self.engine: Engine = open_engine(f"sqlite:///{database}")
        self.data_dir = folder / "node"
        self.log_path = folder / "worker.log"
        self.log_path.touch()
        settings = ApiSettings(
            database_url=f"sqlite:///{database}",
            redis_url=NO_REDIS,
            storage_url=f"file://{folder}/storage",
            heartbeat_seconds=1,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        config = uvicorn.Config(create_app(settings), log_level="warning", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        eventually(lambda: self._server.started)
        self.door = Door(port)
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{port}")
        with writing(self.engine) as session:
            _, key = mint_key(session, None, "first")
            self.join_token, _ = node_tokens.make_join_token(session, "n1", 3_600_000_000)
        self.admin = Actor(self.client, key)  # type: ignore[arg-type]
        self.admin.made("/images", {"name": "host", "reference": "host"})
        self.tenant = a_tenant(self.admin, "acme")
        quota = {"gpus": [{"model": "*", "limit": 8}], "isolation_levels": ["process", "container"]}
        assert self.admin.send("PUT", f"/tenants/{self.tenant.tenant_id}/quota", json=quota).status_code == 200

    def close(self) -> None:
        """End the API."""
        self.door.close()
        self.client.close()
        self._server.should_exit = True
        self._thread.join(timeout=20)
        self.engine.dispose()

    def submit(self, script: str, inputs: list[bytes] | None = None, **spec: Any) -> str:
        """Queue a job of one simulated device that runs a shell script."""
        plain = {"Content-Type": "application/x-tar"}
        stored = [self.tenant.post("/inputs", content=tar, headers=plain) for tar in inputs or []]
        hashes = [answer.json()["sha256"] for answer in stored]
        body = {
            "image": "host",
            "isolation": "process",
            "command": ["/bin/sh", "-c", script],
            "time_limit": "5m",
            "inputs": hashes,
            **spec,
        }
        found: str = self.tenant.made("/jobs", {"resources": {"gpus": 1, "memory": "64MiB"}, **body})["id"]
        return found

    def assign(self, job_id: str, level: Level = Level.PROCESS) -> Assigned:
        """Give the job a device of the node."""
        with writing(self.engine) as session:
            node_id = session.exec(select(Gpu.node_id)).first()
            assert node_id is not None
            placement = replace(a_placement(session, job_id, node_id), level=level)
            lock_for(session, [placement])
            return assign(session, placement)

    def order_stop(self, attempt_id: str, reason: str) -> None:
        """Tell the attempt to stop; the node hears of it with its next heartbeat."""
        with writing(self.engine) as session:
            order_stop(session, attempt_id, reason)

    def lose(self, attempt_id: str) -> None:
        """Give the attempt up, as if its node were gone."""
        with writing(self.engine) as session:
            lose(session, attempt_id)

    def attempt(self, attempt_id: str) -> Attempt:
        """The attempt's row."""
        with reading(self.engine) as session:
            return session.get_one(Attempt, attempt_id)

    def job(self, job_id: str) -> Job:
        """The job's row."""
        with reading(self.engine) as session:
            return session.get_one(Job, job_id)

    def log(self, job_id: str) -> bytes:
        """The log, as the tenant reads it."""
        return self.tenant.get(f"/jobs/{job_id}/logs").content

    def artifact(self, job_id: str, name: str) -> bytes:
        """A file, as the tenant reads it."""
        answer = self.tenant.get(f"/jobs/{job_id}/artifacts/{name}")
        assert answer.status_code == 200, answer.text
        return answer.content

    def has_free_device(self) -> bool:
        """Whether the next job could be placed."""
        with reading(self.engine) as session:
            gpus = session.exec(select(Gpu).where(Gpu.state == "clean", Gpu.used_milli == 0, Gpu.health == "ok")).all()
            return bool(gpus)

    def open_allocations(self) -> int:
        """Devices that the database thinks held."""
        with reading(self.engine) as session:
            return len(session.exec(select(Allocation).where(col(Allocation.until_us).is_(None))).all())

    def is_over(self, attempt_id: str) -> bool:
        """Whether the attempt ended, for the API and on the node."""
        return self.attempt(attempt_id).state == "ended" and not self.folder(attempt_id).exists()

    def folder(self, attempt_id: str) -> Path:
        """The attempt's folder on the node."""
        return self.data_dir / "attempts" / attempt_id

    def stages(self, attempt_id: str) -> list[str]:
        """How far the attempt has come on the node."""
        try:
            lines = (self.folder(attempt_id) / "stages.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line)["stage"] for line in lines]

    @property
    def node_id(self) -> NodeId:
        """The node's id, as it learnt it."""
        return NodeId(json.loads((self.data_dir / "credential.json").read_text())["node_id"])

    def sandboxes_left(self) -> list[str]:
        """Names of what the backend still holds."""
        return [held.sandbox_id for held in BubblewrapSandbox(self.data_dir / "process", self.node_id).list()]

    def check_nothing_is_left(self) -> None:
        """No sandbox, no runner, no folder, no device held; and the books agree."""
        with reading(self.engine) as session:
            assert_books_agree(session)
        assert self.sandboxes_left() == []
        assert self.open_allocations() == 0
        eventually(lambda: not list((self.data_dir / "attempts").iterdir()))
        until_no_runner(self.data_dir)

    def beats(self) -> int:
        """Signs of life of the node so far."""
        with reading(self.engine) as session:
            return session.exec(select(Node.beat)).first() or 0

    def worker_log(self) -> str:
        """What the workers in this folder have logged."""
        return self.log_path.read_text()

    @contextlib.contextmanager
    def worker(self, kill_at: str = "", **environment: str) -> Iterator["NodeProcess"]:
        """A worker process; ended at the end, if it is not by then."""
        self.door.open()
        before = self.beats()
        process = NodeProcess(self, kill_at, environment)
        try:
            if not kill_at:  # it registers, and then beats, which is when it may start something
                eventually(lambda: self.beats() > before + 1 or process.has_failed(), 60)
            yield process
        finally:
            process.end()


class NodeProcess:
    """A worker as a process of its own."""

    def __init__(self, world: World, kill_at: str, environment: dict[str, str]) -> None:
        settings = {
            "CORRAL_API_URL": f"http://127.0.0.1:{world.door.port}",
            "CORRAL_JOIN_TOKEN": world.join_token,
            "CORRAL_DATA_DIR": str(world.data_dir),
            "CORRAL_SIMULATED_GPUS": "2",
            "CORRAL_LEVELS": "process",
            "CORRAL_HEARTBEAT_SECONDS": "0.3",
            "KILL_AT": kill_at,
        }
        with world.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(NODE_PROCESS)],
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], **settings, **environment},
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_killed(self) -> None:
        """It killed itself where it was told to."""
        assert self._process.wait(timeout=60) == -signal.SIGKILL

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self._process.kill()
        self._process.wait(timeout=20)

    def end(self) -> None:
        """SIGTERM; it must leave by itself."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                assert self._process.wait(timeout=30) == 0
            finally:
                self._process.kill()

    def has_failed(self) -> bool:
        """Never: it fails the test if the process has ended."""
        code = self._process.poll()
        assert code is None, f"the worker ended with {code}"
        return False

    def hint_processes(self) -> list[int]:
        """Its Celery process."""
        children = Path(f"/proc/{self.pid}/task").glob("*/children")
        pids = [int(pid) for each in children for pid in each.read_text().split()]
        return [pid for pid in pids if b"worker.hint_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def a_tar(**files: bytes) -> bytes:
    """An input with these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _carry(source: socket.socket, target: socket.socket, other_is_done: threading.Event, done: threading.Event) -> None:
    """One way of a connection; who is done last closes both ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
    done.set()
    if other_is_done.wait(timeout=60):
        source.close()
