"""What this node is, as it tells the API at its start."""

import os
from pathlib import Path

from corral.node import DeviceReport, LevelReport, NodeFacts

from sandbox import boot_clock
from worker.devices import Inventory
from worker.settings import WorkerSettings

AGENT_VERSION = "0.1.0"
RESERVE_PERCENT = 10
"""Of memory and disk, left to the node itself unless the settings say what jobs may use."""


def node_facts(
    settings: WorkerSettings,
    inventory: Inventory,
    devices: list[DeviceReport],
    levels: list[LevelReport],
    hints_password_sha256: str | None = None,
) -> NodeFacts:
    """The facts of this moment; what the settings state goes before what is found."""
    found_memory = memory_total() * (100 - RESERVE_PERCENT) // 100
    found_scratch = disk_free(settings.data_dir) * (100 - RESERVE_PERCENT) // 100
    return NodeFacts(
        boot_id=boot_clock.boot_id(),
        agent_version=AGENT_VERSION,
        kernel=os.uname().release,
        driver_version=inventory.driver_version,
        cuda_driver=inventory.cuda_driver_version,
        cpus_milli=len(os.sched_getaffinity(0)) * 1000 if settings.cpus_milli is None else settings.cpus_milli,
        memory_bytes=found_memory if settings.memory_bytes is None else settings.memory_bytes,
        scratch_bytes=found_scratch if settings.scratch_bytes is None else settings.scratch_bytes,
        levels=levels,
        devices=devices,
        labels=settings.labels,
        hints_password_sha256=hints_password_sha256,
    )


def memory_total() -> int:
    """The machine's memory, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def disk_free(folder: Path) -> int:
    """What a job's files may take where they will lie, in bytes."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
