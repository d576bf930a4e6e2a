"""Tends a sandbox while it runs: tells of its start, carries its log, passes stops and deadlines on to its runner."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from corral.node import AttemptStanding, Started

from sandbox.contract import LaunchOrder, Sandbox, SandboxFault, SandboxId, StopReason
from worker.api_link import ApiFault, ApiLink, Away, Refused, Stale, Unknown
from worker.contact import LONGEST_WAIT_S, Contact
from worker.logs import LONGEST_PAUSE_S, LogPump, Pace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Running:
    """A sandbox whose gate is open."""

    box: Sandbox
    sandbox_id: SandboxId
    order: LaunchOrder
    started: Started


class Tender:
    """One thread beside one running sandbox. None of what it does may delay or end the job."""

    def __init__(
        self,
        running: Running,
        api: ApiLink,
        contact: Contact,
        pump: LogPump,
        wish: Callable[[], StopReason | None],
        on_standing: Callable[[AttemptStanding], None],
        on_stale: Callable[[], None],
        is_open: bool,
    ) -> None:
        """`wish` tells whether the sandbox should stop; the others hear what the API's answers say.

        With `is_open` false the runner refused to open the gate, and there is no start to tell of.
        """
        self._running = running
        self._api = api
        self._contact = contact
        self._wish = wish
        self._on_standing = on_standing
        self._on_stale = on_stale
        self._attempt_id = running.order.attempt_id
        self._pump = pump
        self._pace = Pace()
        self._began_s = time.monotonic()
        self._wake = threading.Event()
        self._is_over = False
        self._is_start_told = not is_open
        self._stop_passed: StopReason | None = None
        self._extended_us = contact.acked_us
        self._away_pause_s = 0.0
        self._thread = threading.Thread(target=self._tend, name=f"tender-{self._attempt_id}", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def wake(self) -> None:
        """There may be a stop to pass on."""
        self._wake.set()

    def finish(self) -> None:
        """The sandbox has ended: leave the rest of the log to the caller."""
        self._is_over = True
        self._wake.set()
        self._thread.join()

    def _tend(self) -> None:
        while not self._is_over:
            try:
                self._pass_stop()
                self._extend()
                pause_s = self._tell()
            except Exception:
                # edge of the thread: whatever surprised us, the job must stay stoppable
                log.exception("%s: tending failed and goes on", self._attempt_id)
                pause_s = LONGEST_PAUSE_S
            self._wake.wait(pause_s)
            self._wake.clear()

    def _tell(self) -> float:
        """Report what is new; the seconds until the next try."""
        try:
            if not self._is_start_told:
                self._tell_start()
            if self._pump.step():
                return 0.0
            self._away_pause_s = 0.0
            return self._pace.after(time.monotonic() - self._began_s, self._pump.is_behind())
        except Stale:
            self._on_stale()
        except (Away, Unknown) as fault:
            log.debug("%s: %s", self._attempt_id, fault)
        except ApiFault as fault:
            log.error("%s: the API refused a report: %s", self._attempt_id, fault)
        self._away_pause_s = min(max(self._away_pause_s * 2, 0.1), LONGEST_WAIT_S)
        return self._away_pause_s

    def _tell_start(self) -> None:
        try:
            standing = self._api.started(self._attempt_id, self._running.started)
        except Refused as refusal:
            log.warning("%s: its start was not taken down: %s", self._attempt_id, refusal)
            self._is_start_told = True  # the final report says it again
            return
        self._is_start_told = True
        self._on_standing(standing)

    def _pass_stop(self) -> None:
        reason = self._wish()
        if reason is None or reason is self._stop_passed:
            return
        running = self._running
        grace_us = 0 if reason is StopReason.REMOVED else running.order.grace_us
        try:
            running.box.stop(running.sandbox_id, running.order, reason, grace_us)
        except SandboxFault as fault:
            log.warning("%s: the stop did not get through and is tried again: %s", self._attempt_id, fault)
            return
        self._stop_passed = reason

    def _extend(self) -> None:
        acked_us, reach_us = self._contact.acked_us, self._running.order.max_unreachable_us
        if acked_us is None or reach_us is None or acked_us == self._extended_us:
            return
        try:
            self._running.box.extend(self._running.sandbox_id, self._running.order, acked_us + reach_us)
        except SandboxFault as fault:
            log.warning("%s: its deadline for silence was not moved: %s", self._attempt_id, fault)
            return
        self._extended_us = acked_us
