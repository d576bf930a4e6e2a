"""The floor of a start: the same hardened container, created and started by the engine's client alone."""

import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from domain.ids import AttemptId, Fence, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from sandbox.contract import LaunchOrder
from sandbox.engine_client import EngineClient
from sandbox.engine_facts import read_facts
from sandbox.hardening import Setting, container_name, create_body, volumes_of
from sandbox.image_gate import admit
from sandbox.job_user import job_uid
from sandbox.scratch import ScratchPool
from sandbox.seccomp import engine_profile

NS_PER_MS = 1_000_000
MIB = 2**20
EXIT_SECONDS = 30


class EngineFloor:
    """Starts one container after the other, with every setting of a job's, but no gate, no check and no runner."""

    def __init__(self, image_id: str, command: list[str]) -> None:
        self._engine = EngineClient()
        self._folder = Path(tempfile.mkdtemp(prefix="corral-floor-"))
        self._volumes = ScratchPool(self._folder)
        self._image = admit(image_id, self._engine.image(image_id), os.uname().machine)
        self._facts = read_facts(self._engine)
        self._command = command

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._volumes.close()
        self._engine.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start_ms(self) -> float:
        """From before the create call to the command's first instruction. Volumes are there before."""
        order = self._order()
        name = container_name(order)
        uid = job_uid(order.tenant_id, self._facts.bounds.uids) + self._facts.user_offset
        volumes = self._volumes.provide(name, volumes_of(order), uid)
        setting = Setting("runc", engine_profile(), order.state_dir, (), volumes)
        body = create_body(order, self._image, setting, self._facts.bounds) | {"Entrypoint": [], "Cmd": self._command}
        before = time.time_ns()
        self._engine.create(body, name)
        self._engine.start(name)
        try:
            return (self._first(volumes["out"] / "first") - before) / NS_PER_MS
        finally:
            self._engine.remove(name)
            self._volumes.release(name)
            shutil.rmtree(order.state_dir)

    def _first(self, path: Path) -> int:
        deadline = time.monotonic() + EXIT_SECONDS
        while not path.exists() or not path.read_text().endswith("\n"):
            if time.monotonic() > deadline:
                raise TimeoutError("the floor's container did not write its time")
            time.sleep(0.001)
        return int(path.read_text())

    def _order(self) -> LaunchOrder:
        attempt_id = f"att_floor{secrets.token_hex(8)}"
        state_dir = self._folder / attempt_id
        state_dir.mkdir()
        return LaunchOrder(
            attempt_id=AttemptId(attempt_id),
            fence=Fence(1),
            job_id=JobId("job_floor"),
            tenant_id=TenantId("ten_floor"),
            node_id=NodeId("nod_floor"),
            level=Level.CONTAINER,
            image_kind=ImageKind.ENGINE,
            image_reference=self._image.image_id,
            command=tuple(self._command),
            env={},
            cpus_milli=1000,
            memory_bytes=256 * MIB,
            shm_bytes=64 * MIB,
            scratch_bytes=0,
            output_bytes=MIB,
            pids_limit=512,
            devices=(),
            input_dir=None,
            state_dir=state_dir,
            time_limit_us=60_000_000,
            grace_us=0,
            max_unreachable_us=None,
            unreachable_at_us=None,
            log_bytes_max=MIB,
            log_bytes_per_second=MIB,
        )
