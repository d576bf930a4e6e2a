"""Sandboxes on this node that no attempt's folder speaks for: named to the API, and removed only on its word."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.node import HeldSandbox

from domain.ids import AttemptId, Fence
from domain.levels import Level
from sandbox.contract import Held, Sandbox, SandboxFault
from worker.state_folder import StateFolder

log = logging.getLogger(__name__)

PROBE_PREFIX = "att_probe"
"""Attempts of this name are a backend's own probes: nobody's work."""


@dataclass(frozen=True, slots=True)
class _Orphan:
    box: Sandbox
    held: Held


class Orphans:
    """What the last sweep found. What the API does not name, or does not know, stays."""

    def __init__(
        self, boxes: Mapping[Level, Sandbox], attempts_dir: Path, is_ours: Callable[[AttemptId], bool]
    ) -> None:
        """`is_ours` tells whether an attempt of this agent speaks for a sandbox."""
        self._attempts_dir = attempts_dir
        self._boxes = boxes
        self._is_ours = is_ours
        self._lock = threading.Lock()
        self._found: dict[tuple[AttemptId, Fence], _Orphan] = {}
        self._condemned: set[tuple[AttemptId, Fence]] = set()
        self._problems: list[str] = []

    def held(self) -> list[HeldSandbox]:
        """How a heartbeat names them."""
        with self._lock:
            found = list(self._found)
            return [HeldSandbox(attempt_id=a, fence=f, is_alive=self._found[a, f].held.is_alive) for a, f in found]

    def problems(self) -> list[str]:
        """What kept the last sweep from seeing everything."""
        with self._lock:
            return list(self._problems)

    def condemn(self, attempt_id: AttemptId, fence: Fence) -> bool:
        """The API says that it is to go; the next sweep removes it. Whether it is one of these."""
        with self._lock:
            if (attempt_id, fence) not in self._found:
                return False
            self._condemned.add((attempt_id, fence))
            return True

    def sweep(self) -> None:
        """Look at every backend, and remove what was condemned."""
        found: dict[tuple[AttemptId, Fence], _Orphan] = {}
        problems = []
        for level, box in self._boxes.items():
            try:
                listed = box.list()
            except (SandboxFault, OSError) as fault:
                problems.append(f"level {level.value}: what it holds is not known: {fault}")
                continue
            for held in listed:
                if not self._is_ours(held.attempt_id) and not held.attempt_id.startswith(PROBE_PREFIX):
                    found[held.attempt_id, held.fence] = _Orphan(box, held)
        with self._lock:
            condemned = [found.pop(key) for key in self._condemned if key in found]
            self._condemned.clear()
            self._found, self._problems = found, problems
        for orphan in condemned:
            self._remove(orphan)

    def sweep_probes(self) -> None:
        """Remove what a probe of an earlier agent left behind. Only before this one probes."""
        for box in self._boxes.values():
            try:
                listed = [held for held in box.list() if held.attempt_id.startswith(PROBE_PREFIX)]
            except (SandboxFault, OSError):
                continue  # a backend that does not answer is not offered either
            for held in listed:
                self._remove(_Orphan(box, held))

    def _remove(self, orphan: _Orphan) -> None:
        held = orphan.held
        try:
            orphan.box.remove(held.sandbox_id, None)
        except (SandboxFault, OSError) as fault:
            log.warning("sandbox %s of nobody cannot be removed yet: %s", held.sandbox_id, fault)
            return
        if held.state_dir.parent == self._attempts_dir and held.state_dir.is_dir():
            StateFolder(held.state_dir, {}).delete()
        log.info("sandbox %s of nobody was removed", held.sandbox_id)
