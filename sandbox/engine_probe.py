"""Tries a container sandbox out: a level is offered when one was really made, verified, run and removed here."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Final

from domain.ids import AttemptId, Fence, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from sandbox.contract import IsolationRecord, LaunchOrder, Sandbox, SandboxFault

PROBE_TENANT: Final = TenantId("ten_probe")
PROBES: Final = "probes"
ENDS_WITHIN_S: Final = 30.0
MIB: Final = 1 << 20


def probe_order(state_dir: Path, node_id: NodeId, level: Level, image_id: str) -> LaunchOrder:
    """The smallest order that has every part."""
    name = f"att_probe{uuid.uuid4().hex[:12]}"
    return LaunchOrder(
        attempt_id=AttemptId(name),
        fence=Fence(1),
        job_id=JobId("job_probe"),
        tenant_id=PROBE_TENANT,
        node_id=node_id,
        level=level,
        image_kind=ImageKind.ENGINE,
        image_reference=image_id,
        command=("/bin/true",),
        env={},
        cpus_milli=500,
        memory_bytes=64 * MIB,
        shm_bytes=MIB,
        scratch_bytes=8 * MIB,
        output_bytes=8 * MIB,
        pids_limit=32,
        devices=(),
        input_dir=None,
        state_dir=state_dir,
        time_limit_us=int(ENDS_WITHIN_S * 1e6),
        grace_us=0,
        max_unreachable_us=None,
        unreachable_at_us=None,
        log_bytes_max=64 << 10,
        log_bytes_per_second=64 << 10,
    )


def try_out(sandbox: Sandbox, order: LaunchOrder) -> IsolationRecord:
    """Make it, verify it, run it, remove it.

    Raises:
        SandboxFault: it cannot be made, is weaker than asked, or did not end as it should.
    """
    made = sandbox.create(order)
    try:
        record = sandbox.verify(made, order)
        sandbox.start(made, order)
        ended = sandbox.wait(made, order, ENDS_WITHIN_S)
    finally:
        sandbox.remove(made, order)
    if ended is None or ended.exit_code != 0:
        raise SandboxFault(f"the probe's command did not end with 0: {ended}")
    return record


@contextmanager
def probe_folder(root: Path) -> Iterator[Path]:
    """A state folder for one probe, gone afterwards."""
    folder = root / PROBES / uuid.uuid4().hex
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        forget_folder(root, folder)


def forget_folder(root: Path, folder: Path) -> None:
    """Delete a probe's state folder; any other stays. Ours alone: inside, nothing of it but a FIFO is writable."""
    if folder.parent == root / PROBES and folder.is_dir():
        rmtree(folder)
