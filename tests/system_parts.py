"""A whole Corral as separate processes, each of which can be killed, stopped and started again."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from books import assert_books_agree
from corral import Client
from corral.accounts import TenantSpec
from corral.identity import KeySpec
from corral.jobs import IsolationLevel
from corral.prices import PriceSpec
from corral.quotas import GpuQuota, QuotaSpec
from redis_parts import eventually
from sqlmodel import col, select

from corrald.first_start import join_token, prepare_database
from corrald.valkey import private_server
from store.engine import open_engine, reading
from store.master_keys import add_key
from store.tables import Attempt, Gpu

ROOT = Path(__file__).parents[1]
START_SECONDS = 120
"""A service is there in two seconds, on a machine that has nothing else to do."""
SERVICES = ("valkey", "api", "control", "worker")


@dataclass(frozen=True, slots=True)
class Network:
    """How the parts of a system on several machines find and trust each other."""

    service_env: Mapping[str, str]
    node_env: Mapping[str, str]
    valkey_arguments: Sequence[str]
    trust: ssl.SSLContext


class System:
    """Valkey, API, control and a worker on one database; `services` are started in that order."""

    def __init__(
        self,
        folder: Path,
        database_url: str,
        gpus: int = 4,
        network: Network | None = None,
        level: IsolationLevel = "process",
        service_env: Mapping[str, str] | None = None,
    ) -> None:
        """`network`: API and Valkey are reached as from another machine, instead of plainly on this one.

        `service_env`: more settings of the API and control.
        """
        self.folder = folder
        self.engine = open_engine(database_url)
        self.port = free_port()
        self.url = f"{'https' if network else 'http'}://127.0.0.1:{self.port}"
        self._valkey = folder / "valkey.sock"
        self._network = network
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        admin_key = prepare_database(self.engine).admin_key
        assert admin_key
        add_key(folder / "secrets.key")
        self.level = level
        self._env = {
            "CORRAL_DATABASE_URL": database_url,
            "CORRAL_REDIS_URL": f"unix://{self._valkey}",
            "CORRAL_STORAGE_URL": f"file://{folder / 'storage'}",
            "CORRAL_HEARTBEAT_SECONDS": "1",
            "CORRAL_SECRETS_KEY_FILE": str(folder / "secrets.key"),
            **(network.service_env if network else {}),
            **(service_env or {}),
        }
        self._node_env = {
            "CORRAL_API_URL": self.url,
            "CORRAL_REDIS_URL": f"unix://{self._valkey}",
            "CORRAL_DATA_DIR": str(folder / "node"),
            "CORRAL_NODE_NAME": "node-1",
            "CORRAL_SIMULATED_GPUS": str(gpus),
            "CORRAL_LEVELS": level,
            "CORRAL_CPUS_MILLI": "64000",  # so that devices, and not the machine's CPUs, are what is scarce
            "CORRAL_JOIN_TOKEN": join_token(self.engine, "node-1"),
            **(network.node_env if network else {}),
        }
        for name in SERVICES:
            self.start(name)
        self.admin = Client(self.url, admin_key)
        self.tenant_id = self.add_tenant("lab", gpus=gpus)
        self.tenant = Client(self.url, self.key_of(self.tenant_id))
        eventually(lambda: any(node.levels for node in self.admin.nodes()), START_SECONDS)

    def add_tenant(self, name: str, gpus: int) -> str:
        tenant = self.admin.create_tenant(TenantSpec(name=name, default_isolation=self.level))
        quota = QuotaSpec(gpus=[GpuQuota(model="*", limit=gpus)], isolation_levels=[self.level], most_running=1000)
        self.admin.set_tenant_quota(tenant.id, quota)
        self.admin.set_price(PriceSpec(model="*", micro_per_gpu_hour=3_600_000_000))
        return tenant.id

    def key_of(self, tenant_id: str) -> str:
        return self.admin.create_tenant_key(tenant_id, KeySpec(name="test")).key

    def start(self, name: str) -> None:
        """Start a service that is not there, and wait until it answers."""
        if name == "valkey":
            self._valkey.unlink(missing_ok=True)
            more = self._network.valkey_arguments if self._network else ()
            self._spawn(name, (*private_server(self._valkey).argv, *more), {})
            eventually(self._valkey.is_socket)
            return
        arguments = {"api": ("api", "--port", str(self.port))}.get(name, (name,))
        env = self._node_env if name == "worker" else self._env
        self._spawn(name, (sys.executable, "-m", "corrald.main", *arguments), env)
        if name == "api":
            eventually(self._is_answering, START_SECONDS)
        if name == "worker":
            eventually((self.folder / "node" / "poke.sock").is_socket, START_SECONDS)

    def kill(self, name: str) -> None:
        """kill -9, with no chance to say anything. `celery` and `runner` are found below the worker."""
        if name in self._processes:
            process = self._processes.pop(name)
            process.kill()
            process.wait()
            if name == "worker":
                (self.folder / "node" / "poke.sock").unlink(missing_ok=True)
            return
        for pid in self.pids_of(name):
            os.kill(pid, signal.SIGKILL)

    def restart(self, name: str) -> None:
        self.kill(name)
        if name in SERVICES:
            self.start(name)

    def signal(self, name: str, number: signal.Signals) -> None:
        self._processes[name].send_signal(number)

    def pids_of(self, name: str) -> list[int]:
        """The node's Celery process, or the runners, by their command lines and this system's folder."""
        word = {"celery": "worker.hint_process", "runner": "sandbox.runner"}.get(name, name)
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            mentions = f"{line} {environment}"
            if word in line and str(self.folder) in mentions:
                found.append(int(entry.name))
        return found

    def live_states(self) -> list[str]:
        """The states of the attempts that are not over."""
        with reading(self.engine) as session:
            return list(session.exec(select(Attempt.state).where(col(Attempt.state) != "ended")))

    def settle(self, seconds: float = 60) -> None:
        """Wait until nothing is under way and every device is free again; then the books must agree."""
        eventually(lambda: not self.live_states(), seconds)
        eventually(self._are_devices_free, 30)
        with reading(self.engine) as session:
            assert_books_agree(session)

    def log_text(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        self.tenant.close()
        self.admin.close()
        for name in reversed(SERVICES):
            if (process := self._processes.pop(name, None)) is not None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                process.wait(30)
        self.engine.dispose()

    def _are_devices_free(self) -> bool:
        with reading(self.engine) as session:
            return all(gpu.used_milli == 0 and gpu.state == "clean" for gpu in session.exec(select(Gpu)))

    def _spawn(self, name: str, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as output:
            clean = {key: value for key, value in os.environ.items() if not key.startswith("CORRAL_")}
            self._processes[name] = subprocess.Popen(
                argv, cwd=ROOT, env=clean | dict(env), stdout=output, stderr=subprocess.STDOUT
            )

    def _is_answering(self) -> bool:
        try:
            trust = self._network.trust if self._network else None
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=1, context=trust) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
