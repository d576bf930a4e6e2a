"""Keeps what was last seen of the node's devices, what they use when idle, and what the API knows of them."""

import json
import logging
import os
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from corral.node import DeviceReport

from sandbox.contract import DeviceGrant
from worker.devices import UNREAD_MODEL, Device, Inventory, learn_baseline, why_dirty

BASELINES = "baselines.json"
TEXT_MAX = 500
MODEL_MAX = 96
log = logging.getLogger(__name__)


class DeviceWatch:
    """Thread-safe. A look is taken when asked for; between looks, what is reported is the last one."""

    def __init__(self, read: Callable[[], Inventory], data_dir: Path) -> None:
        """`read` looks at the devices, and returns in bounded time."""
        self._read = read
        self._file = data_dir / BASELINES
        self._lock = threading.Lock()
        self._baselines = _load(self._file)
        self._generations: dict[str, int] = {}
        self._seen = Inventory()
        self._seen_generations: dict[str, int] = {}
        self._unclean: dict[str, str] = {}

    @property
    def inventory(self) -> Inventory:
        """What the last look found."""
        with self._lock:
            return self._seen

    def look(self, held: Collection[str], pids_of_ours: Callable[[], Collection[int]]) -> Inventory:
        """Look now. `held` are the devices of sandboxes that are not removed yet, before the look and during it."""
        with self._lock:
            generations = dict(self._generations)
        seen = self._read()
        learnt = {d.uuid: base for d in seen.devices if d.uuid not in held and (base := learn_baseline(d)) is not None}
        has_processes = any(device.processes for device in seen.devices)
        ours = pids_of_ours() if has_processes else ()
        with self._lock:
            fresh = {uuid: base for uuid, base in learnt.items() if uuid not in self._baselines}
            if fresh:
                self._baselines |= fresh
                _save(self._file, self._baselines)
            reasons = {d.uuid: why_dirty(d, self._baselines.get(d.uuid), ours) for d in seen.devices}
            self._unclean = {uuid: reason for uuid, reason in reasons.items() if reason is not None}
            self._seen, self._seen_generations = seen, generations
        return seen

    def learn_generations(self, generations: dict[str, int]) -> None:
        """What the API's last answer said; findings of the next look are about these."""
        with self._lock:
            self._generations = dict(generations)

    def reports(self, held: Collection[str], only: Collection[str] | None = None) -> list[DeviceReport]:
        """What the API is told of the devices, by the last look; a device in `held` is not clean, whatever was seen."""
        with self._lock:
            return [
                _report(device, self._why_unclean(device, held), self._seen_generations.get(device.uuid))
                for device in self._seen.devices
                if only is None or device.uuid in only
            ]

    def _why_unclean(self, device: Device, held: Collection[str]) -> str:
        return "a sandbox of this node holds it" if device.uuid in held else self._unclean.get(device.uuid, "")


def why_not_these(granted: Sequence[DeviceGrant], present: Inventory) -> str | None:
    """Why the devices at hand are not exactly the ones that were assigned; None if they are."""
    if len({grant.uuid for grant in granted}) != len(granted):
        return "a device was assigned twice"
    for grant in granted:
        device = present.device(grant.uuid)
        if device is None:
            return f"{grant.uuid} was assigned and is not on this node"
        if device.is_sick:
            return f"{grant.uuid} was assigned and is sick: {device.health_reason}"
        if (device.model, device.is_simulated) != (grant.model, grant.is_simulated):
            return f"{grant.uuid} was assigned as {grant.model} and is {device.model}"
    return None


def _report(device: Device, unclean: str, generation: int | None) -> DeviceReport:
    return DeviceReport(
        uuid=device.uuid,
        model=device.model[:MODEL_MAX] or UNREAD_MODEL,
        memory_bytes=device.memory_bytes,
        is_simulated=device.is_simulated,
        health=device.health.value,
        health_reason=device.health_reason[:TEXT_MAX],
        is_clean=not unclean,
        clean_reason=unclean[:TEXT_MAX],
        generation=generation,
        ecc=device.ecc.value,
        utilisation_pct=device.utilisation_pct,
    )


def _load(file: Path) -> dict[str, int]:
    """Idle memory by UUID: measured before anything ran, so it must outlive the agent."""
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        log.warning("%s is damaged; idle memory is measured again", file)
        return {}
    return {str(uuid): int(base) for uuid, base in found.items()}


def _save(file: Path, baselines: dict[str, int]) -> None:
    draft = file.with_suffix(".new")
    with draft.open("w") as out:
        json.dump(baselines, out)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)
