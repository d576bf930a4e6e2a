"""Which isolation levels this node offers: only what a probe really started and checked here."""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from corral.node import LevelReport

from domain.levels import Level
from sandbox.contract import Probe, Sandbox, SandboxFault

log = logging.getLogger(__name__)


class Levels:
    """The last probe of each backend."""

    def __init__(self, boxes: Mapping[Level, Sandbox]) -> None:
        self._boxes = boxes
        self._probes: dict[Level, Probe] = {}

    def probe_missing(self) -> bool:
        """Probe, side by side, each level that is not offered yet; whether that changed what is offered."""
        missing = [level for level in self._boxes if not self._is_offered(level)]
        if not missing:
            return False
        with ThreadPoolExecutor(len(missing), thread_name_prefix="probe") as pool:
            found = dict(zip(missing, pool.map(self._probe, missing), strict=True))
        self._probes |= found
        return any(probe.is_offered for probe in found.values())

    def reports(self) -> list[LevelReport]:
        """What the API is told."""
        return [
            LevelReport(
                level=probe.level.value,
                is_offered=probe.is_offered,
                runtime=probe.runtime,
                runtime_version=probe.runtime_version,
                reasons=list(probe.reasons),
            )
            for _, probe in sorted(self._probes.items(), key=lambda item: item[0].strength)
        ]

    def _is_offered(self, level: Level) -> bool:
        probe = self._probes.get(level)
        return probe is not None and probe.is_offered

    def _probe(self, level: Level) -> Probe:
        try:
            probe = self._boxes[level].probe()
        except (SandboxFault, OSError) as fault:
            probe = Probe(level, False, "", "", (f"the probe failed: {fault}",))
        if probe != self._probes.get(level):
            word = "offered" if probe.is_offered else "not offered"
            log.info("level %s is %s; %s", level.value, word, "; ".join(probe.reasons) or "nothing is missing")
        return probe
