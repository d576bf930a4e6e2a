"""What the steps of one attempt share: its folder, the node's tools, and whether it should still go on."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from corral.node import AttemptStanding

from domain.ids import NodeId
from domain.levels import Level
from sandbox import boot_clock
from sandbox.contract import EngineAway, Sandbox, SandboxFault, StopReason
from worker import endings
from worker.api_link import ApiLink, Away, Stale, Unknown
from worker.contact import BackOff, Contact
from worker.device_watch import DeviceWatch
from worker.image_keeper import Keeping
from worker.logs import LogPump
from worker.settings import WorkerSettings
from worker.state_folder import Stage, StateFolder

T = TypeVar("T")
log = logging.getLogger(__name__)


class Dropped(Exception):
    """The right to write is somebody else's now: remove what is held, and say nothing."""


class StoppedEarly(Exception):
    """It was told to stop before its gate was opened."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Tools:
    """What every attempt on the node works with."""

    settings: WorkerSettings
    api: ApiLink
    boxes: Mapping[Level, Sandbox]
    devices: DeviceWatch
    contact: Contact
    leaving: threading.Event
    node_id: NodeId
    held_devices: Callable[[], frozenset[str]]
    pids_of_ours: Callable[[], frozenset[int]]
    keeping: Keeping | None
    """None where no level runs images."""


class Course:
    """One attempt under way. Its wishes may be set by any thread; its steps run on one."""

    def __init__(self, folder: StateFolder, tools: Tools) -> None:
        self.folder = folder
        self.tools = tools
        self.away_us = 0
        """Time that this life of the agent spent waiting for the API after the end: the platform's, not the job's."""
        self.log_pump = LogPump(folder.log, self._send_log)
        self._stop: StopReason | None = None
        self._is_dropped = False
        self._on_wish: Callable[[], None] = lambda: None

    @property
    def wish(self) -> StopReason | None:
        """Why it should stop; None while it should not."""
        return StopReason.REMOVED if self._is_dropped else self._stop

    @property
    def is_dropped(self) -> bool:
        return self._is_dropped

    def stop(self, reason: StopReason) -> None:
        """It should stop; the first reason counts."""
        if self._stop is None:
            self._stop = reason
            self._on_wish()

    def drop(self) -> None:
        """It should go, unheard."""
        if not self._is_dropped:
            self._is_dropped = True
            self._on_wish()

    def heed(self, standing: AttemptStanding) -> None:
        """What the API's answer to a report says of it."""
        if standing.stop_reason is not None:
            self.stop(endings.stop_reason(standing.stop_reason))

    def tell_wishes_to(self, listener: Callable[[], None]) -> None:
        """Called from now on when a wish is set, and once if one is."""
        self._on_wish = listener
        if self.wish is not None:
            listener()

    def check(self) -> None:
        """Whether the next step before the opening may be taken.

        Raises:
            Dropped, StoppedEarly: no.
        """
        if self._is_dropped:
            raise Dropped
        if self._stop is not None:
            raise StoppedEarly(self._stop)

    def with_engine(self, action: Callable[[], T]) -> T:
        """Do it once the engine answers: unreachable is not failed.

        Raises:
            Leaving: the agent ends.
        """
        back_off = BackOff(self.tools.leaving)
        while True:
            try:
                return action()
            except EngineAway as fault:
                log.warning("%s: the engine is away: %s", self.folder.attempt_id, fault)
                back_off.pause()

    def with_api(self, action: Callable[[], T]) -> T:
        """Do it once the API answers, however long that takes. Only for what no running job depends on.

        Raises:
            Dropped: what is held for this fence counts no more.
            Leaving: the agent ends.
        """
        back_off = BackOff(self.tools.leaving)
        began_us = boot_clock.now_us()
        is_late = False
        while True:
            if self._is_dropped:
                raise Dropped
            try:
                answer = action()
            except Away as fault:
                log.info("%s: the API is away: %s", self.folder.attempt_id, fault)
                is_late = True
                back_off.pause()
                continue
            except (Stale, Unknown) as fault:
                log.warning("%s: %s; what is held for it goes", self.folder.attempt_id, fault)
                raise Dropped from fault
            if is_late and self.folder.facts(Stage.ENDED) is not None:
                self.away_us += boot_clock.now_us() - began_us
            return answer

    def box(self, level: Level) -> Sandbox:
        """The backend of a level.

        Raises:
            SandboxFault: this node has none.
        """
        found = self.tools.boxes.get(level)
        if found is None:
            raise SandboxFault(f"this node does not offer the level {level.value}")
        return found

    def _send_log(self, offset: int, data: bytes) -> int:
        return self.tools.api.append_log(self.folder.attempt_id, self.folder.fence, offset, data)
