"""`corrald up`: API, control and a worker, each a process; on SQLite and a private Valkey unless told otherwise."""

import os
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from corrald.first_start import join_token, prepare_database
from corrald.home import Home
from corrald.supervisor import Child, Supervisor, python_child
from corrald.valkey import private_server
from store.engine import open_engine
from store.master_keys import add_key
from store.signing import new_signing_key
from worker import credential
from worker.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class UpSettings:
    """What an operator can choose for one place."""

    home: Home
    host: str = "127.0.0.1"
    port: int = 8080
    database_url: str | None = None
    """None for SQLite in the home."""
    redis_url: str | None = None
    """None for a private server in the home."""
    node_name: str = ""
    """Empty for the machine's own name."""
    simulated_gpus: int = 0
    levels: str = "process,container"
    with_worker: bool = True

    @property
    def url(self) -> str:
        """Where the API answers on this machine."""
        return f"http://{'127.0.0.1' if self.host == '0.0.0.0' else self.host}:{self.port}"  # noqa: S104


@dataclass(frozen=True, slots=True)
class Running:
    """What is up."""

    url: str
    admin_key: str | None
    """Set on the first start only."""
    supervisor: Supervisor


def _tell_nobody(_key: str) -> None:
    """For who takes the admin's key from `Running`."""


@contextmanager
def running(
    settings: UpSettings,
    tell_key: Callable[[str], None] = _tell_nobody,
    arm: Callable[[Supervisor], None] = lambda _: None,
) -> Iterator[Running]:
    """Everything started and answering; stopped in order at the end.

    `arm` is called before anything is started, so that it can be stopped from then on. `tell_key` gets the first
    admin's key as soon as it is made: it is kept nowhere, and what comes after may fail.

    Raises:
        HomeUnusable: the folder cannot serve, or serves another one already.
        ChildDied: a process ended while it was started.
        OSError: the port is taken.
    """
    settings.home.make()
    with settings.home.held():
        _check_port(settings.host, settings.port)
        database_url = settings.database_url or settings.home.database_url
        engine = open_engine(database_url)
        supervisor = Supervisor(settings.home.logs_dir)
        arm(supervisor)
        try:
            if not settings.home.secrets_key_file.exists():
                add_key(settings.home.secrets_key_file)
            if not settings.home.signing_key_file.exists():
                new_signing_key(settings.home.signing_key_file)
            first = prepare_database(engine)
            if first.admin_key:
                tell_key(first.admin_key)
            supervisor.start(_children(settings, database_url, lambda: join_token(engine, _node_name(settings))))
            yield Running(settings.url, first.admin_key, supervisor)
        finally:
            supervisor.stop()
            engine.dispose()


def stop_on_signals(supervisor: Supervisor) -> None:
    """Make SIGTERM and SIGINT stop everything in order."""
    signal.signal(signal.SIGTERM, supervisor.ask_stop)
    signal.signal(signal.SIGINT, supervisor.ask_stop)


def _children(settings: UpSettings, database_url: str, new_join_token: Callable[[], str]) -> list[Child]:
    home, redis_url = settings.home, settings.redis_url or settings.home.redis_url
    env = {
        "CORRAL_DATABASE_URL": database_url,
        "CORRAL_REDIS_URL": redis_url,
        "CORRAL_STORAGE_URL": os.environ.get("CORRAL_STORAGE_URL") or home.storage_url,
        "CORRAL_SECRETS_KEY_FILE": os.environ.get("CORRAL_SECRETS_KEY_FILE") or str(home.secrets_key_file),
        "CORRAL_SIGNING_KEY_FILE": os.environ.get("CORRAL_SIGNING_KEY_FILE") or str(home.signing_key_file),
        "CORRAL_SEALS_URL": os.environ.get("CORRAL_SEALS_URL") or home.seals_url,
        "CORRAL_TLS_CERT_FILE": "",  # its parts talk over the loopback address, which no certificate names
        "CORRAL_TLS_KEY_FILE": "",
    }
    children = [] if settings.redis_url else [_fresh_valkey(home.redis_socket)]
    address = ("--host", settings.host, "--port", str(settings.port))
    children.append(python_child("api", "api", *address, env=env, is_ready=lambda: _answers(settings.url)))
    children.append(python_child("control", "control", env=env, is_ready=lambda: True))
    if settings.with_worker:
        children.append(_worker(settings, redis_url, new_join_token))
    return children


def _worker(settings: UpSettings, redis_url: str, new_join_token: Callable[[], str]) -> Child:
    node_dir = settings.home.node_dir
    env: dict[str, str] = {
        **without_credentials(os.environ),
        "CORRAL_API_URL": settings.url,
        "CORRAL_REDIS_URL": redis_url,
        "CORRAL_DATA_DIR": str(node_dir),
        "CORRAL_SIMULATED_GPUS": str(settings.simulated_gpus),
        "CORRAL_LEVELS": settings.levels,
    }
    if credential.load(node_dir) is None:
        env["CORRAL_JOIN_TOKEN"] = new_join_token()
    poke = node_dir / "poke.sock"
    poke.unlink(missing_ok=True)
    return python_child("worker", "worker", env=env, is_ready=poke.is_socket)


def without_credentials(environ: Mapping[str, str]) -> Mapping[str, str]:
    """What a worker's environment says instead of its parent's: nothing of the control plane's, or an admin's."""
    of_a_worker = {f"CORRAL_{name}".upper() for name in WorkerSettings.model_fields}
    return {name: "" for name in environ if name.startswith(("CORRAL_", "AWS_")) and name not in of_a_worker}


def _fresh_valkey(path: Path) -> Child:
    path.unlink(missing_ok=True)
    return private_server(path)


def _node_name(settings: UpSettings) -> str:
    return settings.node_name or socket.gethostname().lower()


def _check_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OSError(f"{host}:{port} cannot be used: {error.strerror}; choose another with --port") from error


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:  # noqa: S310  our own address
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
