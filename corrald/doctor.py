"""`corrald doctor`: what the machine has and lacks, and what that means."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from corral.cli.output import print_table
from redis import Redis
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from api.storage import Storage
from corrald.home import Home
from corrald.machine import has_nvidia, probe
from corrald.valkey import binary
from domain.levels import Level
from hints.urls import for_redis_py
from store.engine import open_engine
from store.health import is_answering
from store.migrate import is_current
from worker.devices import Inventory
from worker.gpu_probe import GpuProbe

Mark = Literal["good", "limited", "missing"]
MARK_STYLES: dict[Mark, str] = {"good": "green", "limited": "yellow", "missing": "red"}
FREE_BYTES_FEW = 10 * 2**30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    mark: Mark
    found: str
    meaning: str
    """What follows from it, and what would help."""
    is_needed: bool = False
    """Whether Corral cannot run here without it."""


def run(
    home: Home, database_url: str | None, redis_url: str | None, storage: Storage | None = None, *, as_json: bool
) -> int:
    """Print the findings; 0 unless something is missing without which Corral cannot run here."""
    findings = [finding for check in _checks(home, database_url, redis_url, storage) for finding in check()]
    levels = [finding for finding in findings if finding.what.startswith("level ")]
    is_hopeless = any(finding.is_needed and finding.mark == "missing" for finding in findings)
    is_walled = any(level.mark != "missing" for level in levels)
    if as_json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings], "may_run": is_walled}))
    else:
        _print(findings, is_walled)
    return 1 if is_hopeless or not is_walled else 0


def _checks(
    home: Home, database_url: str | None, redis_url: str | None, storage: Storage | None
) -> list[Callable[[], Iterator[Finding]]]:
    return [
        _python,
        lambda: _level(Level.PROCESS),
        lambda: _level(Level.CONTAINER),
        _gvisor,
        _kata,
        _gpus,
        _cgroups,
        lambda: _disk(home),
        lambda: _database(database_url),
        lambda: _redis(redis_url),
        lambda: _storage(storage),
    ]


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", "good", version, "3.11 or later is needed", is_needed=True)


def _level(level: Level) -> Iterator[Finding]:
    found = probe(level)
    runtime = f"{found.runtime} {found.runtime_version}".strip()
    if found.is_offered:
        mark: Mark = "limited" if found.reasons else "good"
        meaning = "; ".join(found.reasons) or "a sandbox was started, checked from outside and removed"
        yield Finding(f"level {level}", mark, runtime, meaning)
    else:
        yield Finding(f"level {level}", "missing", runtime or "nothing", "; ".join(found.reasons))


def _gvisor() -> Iterator[Finding]:
    path = shutil.which("runsc")
    meaning = "not offered by this version yet" if path else "untrusted code wants it: install gVisor's runsc"
    yield Finding("level gvisor", "missing", path or "no runsc", meaning)


def _kata() -> Iterator[Finding]:
    can_virtualise = os.access("/dev/kvm", os.R_OK | os.W_OK)
    found = "/dev/kvm opens" if can_virtualise else "no usable /dev/kvm"
    yield Finding("level kata", "missing", found, "not offered by this version yet")


def _gpus() -> Iterator[Finding]:
    inventory: Inventory = GpuProbe().read()
    for device in inventory.devices:
        mark: Mark = "good" if device.health == "ok" else "missing"
        yield Finding("GPU", mark, f"{device.model} {device.uuid}", device.health_reason or "healthy")
    if not inventory.devices:
        why = "; ".join(inventory.problems) or "NVML shows none"
        meaning = f"{why}. Jobs without GPUs run; --simulated-gpus pretends some for a trial"
        yield Finding("GPU", "limited", "driver loaded, no device" if has_nvidia() else "none", meaning)


def _cgroups() -> Iterator[Finding]:
    is_unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    if is_unified or os.geteuid() == 0:
        yield Finding(
            "cgroups", "good", "v2" if is_unified else "v1", "limits of containers are enforced by the kernel"
        )
    else:
        meaning = "limits at the level process need root here, or cgroup v2 with a delegated subtree"
        yield Finding("cgroups", "limited", "v1", meaning)


def _disk(home: Home) -> Iterator[Finding]:
    place = next(path for path in (home.path, *home.path.parents) if path.exists())
    free = shutil.disk_usage(place).free
    mark: Mark = "good" if free >= FREE_BYTES_FEW else "limited"
    yield Finding("disk", mark, f"{free // 2**30} GiB free at {place}", "scratch, outputs, inputs and logs lie there")


def _database(url: str | None) -> Iterator[Finding]:
    if url is None:
        yield Finding("database", "good", "SQLite, embedded", "for a fleet, set CORRAL_DATABASE_URL to a PostgreSQL")
        return
    engine = open_engine(url)
    try:
        if not is_answering(engine):
            meaning = "check CORRAL_DATABASE_URL and the server"
            yield Finding("database", "missing", "no answer", meaning, is_needed=True)
            return
        current = is_current(engine)
    finally:
        engine.dispose()
    meaning = "the tables are up to date" if current else "run: corrald migrate"
    yield Finding("database", "good" if current else "limited", engine.dialect.name, meaning)


def _redis(url: str | None) -> Iterator[Finding]:
    if url is None:
        mark: Mark = "good" if binary().exists() else "missing"
        meaning = (
            "for a fleet, set CORRAL_REDIS_URL" if mark == "good" else "set CORRAL_REDIS_URL: none comes for this CPU"
        )
        yield Finding("Redis", mark, "Valkey, embedded", meaning, is_needed=True)
        return
    client = Redis.from_url(for_redis_py(url), socket_timeout=3, socket_connect_timeout=3)
    try:
        client.ping()
        yield Finding("Redis", "good", "answers", "hints travel over it; jobs start without it too, more slowly")
    except RedisError:
        meaning = "jobs start without it, more slowly: check CORRAL_REDIS_URL and the server"
        yield Finding("Redis", "limited", "no answer", meaning)
    finally:
        client.close()


def _storage(storage: Storage | None) -> Iterator[Finding]:
    if storage is None:
        yield Finding("storage", "good", "a folder, embedded", "for a fleet, set CORRAL_STORAGE_URL to a bucket of S3")
    elif storage.is_answering():
        yield Finding("storage", "good", "answers", "inputs, logs and artifacts lie there")
    else:
        meaning = "check CORRAL_STORAGE_URL, CORRAL_STORAGE_OPTIONS and the credentials"
        yield Finding("storage", "missing", "no answer", meaning, is_needed=True)


def _print(findings: list[Finding], is_walled: bool) -> None:
    headings = ("", "WHAT", "FOUND", "MEANING")
    console = Console()
    if console.is_terminal:
        table = Table(box=None, pad_edge=False)
        for heading in headings:
            table.add_column(heading, overflow="fold")
        for finding in findings:
            mark = Text(finding.mark, style=MARK_STYLES[finding.mark])
            table.add_row(mark, finding.what, Text(finding.found), Text(finding.meaning))
        console.print(table)
    else:
        print_table(headings, [(each.mark, each.what, each.found, each.meaning) for each in findings])
    if not is_walled:
        console.print("No isolation level works here, and Corral never runs a job without one.", style="bold red")
