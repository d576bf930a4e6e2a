"""From a job's POST to its first instruction, on an idle node with Docker and runc."""

import argparse
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from corral import Client, JobSpec
from corral.accounts import TenantSpec
from corral.identity import KeySpec
from corral.images import ImageSpec
from corral.quantities import SIZE_UNITS
from corral.quotas import GpuQuota, QuotaSpec

from bench.clock_image import CLOCK, ensure_clock_image
from bench.engine_floor import EngineFloor
from bench.report import Report, Unmeasurable, percentile
from corrald.home import Home
from corrald.machine import why_not
from corrald.up import UpSettings, running
from domain.levels import Level
from sandbox.engine_client import EngineClient

COMMAND = ["/bin/sh", "-c", f"exec /{CLOCK} +%s%N > /out/first"]
"""Its only act is to write down when it began."""
NS_PER_MS = 1_000_000
WARM_UPS = 5
SETTLE_SECONDS = 0.5
NODE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Served:
    """A Corral that runs for the benchmark's sake, and its tenant's client."""

    client: Client
    image_id: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How much to measure."""
    parser.add_argument("--runs", type=int, default=60, help="jobs to measure, each beside one floor (default 60)")


def measure(arguments: argparse.Namespace) -> Report:
    """Job and floor in turn, so that both see the same machine.

    Raises:
        Unmeasurable: Docker or root is missing.
    """
    if os.geteuid() != 0:
        raise Unmeasurable("needs root, as a worker with Docker does: run it with sudo")
    if reason := why_not(Level.CONTAINER):
        raise Unmeasurable(f"Docker is needed ({reason}); start it with: systemctl start docker, or: dockerd &")
    totals: list[float] = []
    floors: list[float] = []
    with _serving() as served, EngineFloor(served.image_id, COMMAND) as floor:
        for number in range(WARM_UPS + arguments.runs):
            total, bare = _job_ms(served.client), floor.start_ms()
            if number >= WARM_UPS:
                totals.append(total)
                floors.append(bare)
    return _report(totals, floors)


def _report(totals: list[float], floors: list[float]) -> Report:
    floor = percentile(floors, 50)
    return Report(
        "latency",
        figures={
            "overhead_p50_ms": percentile(totals, 50) - floor,
            "overhead_p95_ms": percentile(totals, 95) - floor,
            "post_to_first_instruction_p50_ms": percentile(totals, 50),
            "post_to_first_instruction_p95_ms": percentile(totals, 95),
            "jobs": len(totals),
        },
        floors={"engine_alone_p50_ms": floor, "engine_alone_p95_ms": percentile(floors, 95)},
        targets={"overhead_p50_ms": {"max": 60}, "overhead_p95_ms": {"max": 150}},
    )


@contextmanager
def _serving() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="corral-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        settings = UpSettings(Home(Path(folder)), port=_free_port(), simulated_gpus=2, levels="container")
        engine = EngineClient()
        image_id = ensure_clock_image(engine)
        engine.close()
        with running(settings) as now, Client(now.url, now.admin_key) as admin:
            key = _set_up(admin, image_id)
            with Client(now.url, key) as client:
                yield Served(client, image_id)


def _set_up(admin: Client, image_id: str) -> str:
    deadline = time.monotonic() + NODE_SECONDS
    while not any("container" in node.levels for node in admin.nodes()):
        if time.monotonic() > deadline:
            raise Unmeasurable("no node offered the level container within 30 s")
        time.sleep(0.05)
    admin.add_image(ImageSpec(name="clock", reference=image_id))
    tenant = admin.create_tenant(TenantSpec(name="bench"))
    admin.set_tenant_quota(tenant.id, QuotaSpec(gpus=[GpuQuota(model="*", limit=2)]))
    return admin.create_tenant_key(tenant.id, KeySpec(name="bench")).key


def _job_ms(client: Client) -> float:
    """One job, from before its POST leaves to its first instruction, both by this machine's clock."""
    spec = JobSpec.model_validate(
        {
            "image": "clock",
            "command": COMMAND,
            "resources": {"gpus": 1, "memory": 256 * SIZE_UNITS["MiB"], "output": SIZE_UNITS["MiB"]},
            "time_limit": "1m",
        }
    )
    before = time.time_ns()
    job = client.submit(spec)
    time.sleep(SETTLE_SECONDS)  # who asks meanwhile would take the machine's CPUs from what is measured
    view = job.wait(timeout=60)
    if view.exit_code != 0:
        raise Unmeasurable(f"a job of the benchmark ended as {view.outcome}: {view.error}")
    with tempfile.TemporaryDirectory() as folder:
        first = int(job.artifacts[0].download(folder).read_text())
    return (first - before) / NS_PER_MS


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
