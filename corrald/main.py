"""The command `corrald`."""

import gc
import logging
import resource
import sys
from json import loads
from pathlib import Path
from typing import Annotated

import typer
import uvicorn
from rich.console import Console

import control.service
import worker.service
from api.app import create_app
from api.connection import BoundedConnection
from api.settings import ApiSettings
from api.storage import Storage
from control.settings import ControlSettings
from corrald import demo as demo_command
from corrald import doctor as doctor_command
from corrald import fleet, keeping, keys, seals
from corrald.first_start import new_admin_key, prepare_database
from corrald.home import Home
from corrald.options import DatabaseOption, HomeOption
from corrald.refusals import Refusal, explained
from corrald.supervisor import ChildDied
from corrald.up import UpSettings, running, stop_on_signals
from store.engine import open_engine
from worker.settings import WorkerSettings

STOP_STREAMS_SECONDS = 3
"""How long followers of logs may delay the API's stop; they come back with the place where they were."""
LOG_END_BYTES = 4096
"""Where the last lines of a log are looked for."""
DESCRIPTORS = 65_536
SWITCH_SECONDS = 0.0005
"""Python's own 5 ms, for which one thread may keep another from running, is a twelfth of what a start may cost."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Runs Corral's services.",
)
app.add_typer(keys.app, name="keys")
app.add_typer(fleet.app)
app.add_typer(keeping.app)
app.command()(seals.seal)
app.command()(seals.verify)
console = Console(soft_wrap=True)

HostOption = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for every one.")]
PortOption = Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")]


def _redis_url(url: str | None) -> str | None:
    if url is not None and not url.startswith(("redis://", "rediss://", "unix://")):
        raise typer.BadParameter("it is written redis://…, rediss://… or unix:///path")
    return url


RedisOption = Annotated[
    str | None,
    typer.Option(envvar="CORRAL_REDIS_URL", help="A shared Redis instead of a private one.", callback=_redis_url),
]


@app.command()
def up(
    home: HomeOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    database_url: DatabaseOption = None,
    redis_url: RedisOption = None,
    node_name: Annotated[str, typer.Option(help="Name of this machine as a node; else the host's name.")] = "",
    simulated_gpus: Annotated[
        int,
        typer.Option(min=0, max=64, envvar="CORRAL_SIMULATED_GPUS", help="Devices to pretend if there is no GPU."),
    ] = 0,
    levels: Annotated[
        str, typer.Option(envvar="CORRAL_LEVELS", help="Isolation levels to offer, if their probes agree.")
    ] = "process,container",
    worker_too: Annotated[bool, typer.Option("--worker/--no-worker", help="Run a worker here as well.")] = True,
) -> None:
    """Run API, control and a worker in one place."""
    place = Home.at(home)
    settings = UpSettings(
        place, host, port, database_url, redis_url, node_name, simulated_gpus, levels, with_worker=worker_too
    )
    try:
        with running(settings, _show_key, stop_on_signals) as now:
            names = ", ".join(f"{name} {pid}" for name, pid in now.supervisor.pids.items())
            console.print(f"Corral is up at {now.url} ({names}); logs in {place.logs_dir}", highlight=False)
            now.supervisor.watch()
            console.print("Stopping.")
    except ChildDied as death:
        _give_up(f"{death}; everything was stopped. The end of its log, {_log_end(place, death.name)}")
    except (OSError, TimeoutError) as problem:
        _give_up(str(problem))


@app.command()
def api(
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    tls_cert: Annotated[
        Path | None, typer.Option(envvar="CORRAL_TLS_CERT_FILE", help="Certificate, with its chain: serve HTTPS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(envvar="CORRAL_TLS_KEY_FILE", help="Its private key.")] = None,
) -> None:
    """Serve the REST API."""
    if (tls_cert is None) != (tls_key is None):
        raise typer.BadParameter("a certificate and its key go together: set both, or neither")
    begin_service()
    uvicorn.run(
        create_app(ApiSettings()),
        host=host,
        port=port,
        ssl_certfile=tls_cert,
        ssl_keyfile=tls_key,
        http=BoundedConnection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # whoever sends them may have made them up
        timeout_graceful_shutdown=STOP_STREAMS_SECONDS,
    )


@app.command("control")
def control_service() -> None:
    """Run dispatcher, sweeper and biller; of several, one leads."""
    begin_service()
    control.service.run(ControlSettings())


@app.command("worker")
def worker_service() -> None:
    """Run this machine's worker."""
    begin_service()
    try:
        worker.service.run(WorkerSettings())
    except worker.service.CannotServe as reason:
        _give_up(str(reason))


@app.command()
def migrate(database_url: Annotated[str, typer.Option(envvar="CORRAL_DATABASE_URL")]) -> None:
    """Bring the database's tables up to date. Prints the first admin's key if there was none."""
    engine = open_engine(database_url)
    first = prepare_database(engine)
    console.print("The database is up to date.")
    if first.admin_key:
        _show_key(first.admin_key)


@app.command()
def admin_key(home: HomeOption = None, database_url: DatabaseOption = None) -> None:
    """Make one more admin key, for whoever lost the first."""
    place = Home.at(home)
    if database_url is None and not place.database_file.exists():
        _give_up(f"there is no database in {place.path} yet: start with corrald up, or name another folder with --home")
    console.print(new_admin_key(open_engine(database_url or place.database_url)), markup=False, highlight=False)


@app.command()
def doctor(
    home: HomeOption = None,
    database_url: DatabaseOption = None,
    redis_url: RedisOption = None,
    storage_url: Annotated[str | None, typer.Option(envvar="CORRAL_STORAGE_URL", help="Such as s3://bucket.")] = None,
    storage_options: Annotated[str, typer.Option(envvar="CORRAL_STORAGE_OPTIONS", help="JSON, for S3.")] = "{}",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what this machine has and lacks, and what that means."""
    place = Home.at(home)
    try:
        storage = None if storage_url is None else Storage(storage_url, loads(storage_options))
    except ValueError as why:
        raise typer.BadParameter(f"CORRAL_STORAGE_URL, CORRAL_STORAGE_OPTIONS: {why}") from why
    raise typer.Exit(doctor_command.run(place, database_url, redis_url, storage, as_json=json))


@app.command()
def demo(
    sandbox: Annotated[str, typer.Option(help="process (bubblewrap; no root needed) or docker.")] = "process",
    keep: Annotated[bool, typer.Option("--keep", help="Leave the demo's folder behind.")] = False,
) -> None:
    """Run the main job end to end, on a Corral of its own."""
    raise typer.Exit(demo_command.run(sandbox, keep=keep))


def _log_end(place: Home, name: str) -> str:
    log = place.logs_dir / f"{name}.log"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_END_BYTES))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return f"{log}:" + "".join(f"\n  {line}" for line in lines[-3:])


def _show_key(key: str) -> None:
    console.print(f"Admin key, shown this once: {key}", markup=False, highlight=False)


def begin_service() -> None:
    """Log to standard error; let no thread make another wait long, nor a collection visit what stays anyway."""
    _raise_descriptor_limit()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    for chatty in ("httpx2", "alembic"):  # they tell of every request, and of every look at the tables' version
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")


def _print_problem(why: str) -> None:
    Console(stderr=True, soft_wrap=True).print(f"corrald: {why}", markup=False, highlight=False)


def _raise_descriptor_limit() -> None:
    """A follower of a log is a connection, and a process may have more of them than the usual 1,024 descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _give_up(why: str) -> None:
    _print_problem(why)
    raise typer.Exit(1)


def main() -> None:
    """Run the command; exit 1 with one line where the operator can mend it, 2 on a mistake in its use."""
    try:
        with explained():
            app()
    except Refusal as refusal:
        _print_problem(str(refusal))
        sys.exit(1)


if __name__ == "__main__":
    main()
