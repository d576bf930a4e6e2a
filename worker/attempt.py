"""One attempt on this node, from the claim to the last report: one line of steps, which a restart takes up again.

Each step is journaled before what it allows, and each may be repeated. A crash anywhere loses nothing and starts
nothing twice: from `opening` on, the sandbox is never made anew.
"""

import logging
import threading
from collections.abc import Callable

from corral.node import HeldSandbox, Started

from domain.ids import AttemptId, Fence
from sandbox import boot_clock
from sandbox.contract import Exit, LaunchOrder, SandboxFault, SandboxId, StopReason
from worker import closing, endings, launching, orders, secrets
from worker.contact import BackOff, Leaving
from worker.course import Course, Dropped, StoppedEarly, Tools
from worker.image_bringing import bring_image
from worker.state_folder import Stage, StateFolder
from worker.tending import Running, Tender

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""How often a wait for the sandbox's end comes back to see whether the agent leaves."""
SURPRISES_MAX = 3
"""How often a step before the opening may fail by surprise, such as for want of disk, before it is given back."""


class Attempt:
    """A thread that walks one attempt's steps, and the wishes of others about it."""

    def __init__(self, folder: StateFolder, tools: Tools, on_over: Callable[["Attempt"], None]) -> None:
        """`on_over` is called when nothing of the attempt is left here."""
        self._course = Course(folder, tools)
        self._folder = folder
        self._on_over = on_over
        self._device_uuids = orders.device_uuids(folder.facts(Stage.CLAIMED))
        self._surprises = 0
        self._thread = threading.Thread(target=self._walk, name=folder.attempt_id, daemon=True)

    @property
    def id(self) -> AttemptId:
        return self._folder.attempt_id

    @property
    def fence(self) -> Fence:
        return self._folder.fence

    @property
    def held_devices(self) -> frozenset[str]:
        """Devices that its sandbox may still use."""
        return frozenset() if self._folder.facts(Stage.RELEASED) is not None else self._device_uuids

    @property
    def image(self) -> str | None:
        """What it runs; None while it is not claimed."""
        facts = self._folder.facts(Stage.CLAIMED)
        return None if facts is None else orders.ordered(facts).image_reference

    def held(self) -> HeldSandbox:
        """How a heartbeat names it."""
        is_alive = self._folder.facts(Stage.ENDED) is None
        return HeldSandbox(attempt_id=self.id, fence=self.fence, is_alive=is_alive)

    def start(self) -> None:
        """Begin, or go on where an earlier life of the agent was cut off."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until it is over, or has seen that the agent leaves."""
        self._thread.join(timeout_s)

    def stop(self, reason: StopReason) -> None:
        """End it, with the grace that it is due, and report."""
        self._course.stop(reason)

    def drop(self) -> None:
        """End it at once and report nothing: its fence counts no more."""
        self._course.drop()

    def _walk(self) -> None:
        back_off = BackOff(self._course.tools.leaving)
        try:
            while True:
                try:
                    self._go_through_or_discard()
                except Exception:
                    # edge of the thread: whatever surprised us (a full disk, say), the steps can be taken again
                    if self._course.tools.leaving.is_set():
                        raise Leaving from None
                    log.exception("%s: a step failed and is taken again", self.id)
                    self._count_surprise()
                    back_off.pause()
                    continue
                break
        except Leaving:
            return  # sandbox and folder stay for the next agent
        self._on_over(self)

    def _go_through_or_discard(self) -> None:
        try:
            self._go_through()
        except Dropped:
            self._discard()

    def _go_through(self) -> None:
        course = self._course
        order = launching.claim(course)
        self._device_uuids = orders.device_uuids(self._folder.facts(Stage.CLAIMED))
        if self._folder.facts(Stage.ENDED) is None:
            self._folder.note(Stage.ENDED, **self._cleaned(order, self._ended(order)))
        closing.collect(course, order)
        closing.tell(course, closing.release(course, order))
        self._folder.delete()

    def _ended(self, order: LaunchOrder) -> dict[str, object]:
        """How the tenant's command ended, or why it never ran, as facts for the journal."""
        try:
            return endings.of_exit(self._run(order))
        except StoppedEarly as stopped:
            return endings.of_stop(stopped.reason)
        except SandboxFault as fault:
            launching.note_opening(self._course, order.state_dir)
            return endings.of_fault(fault.code, str(fault), self._is_opened, self._time_since_opening_us())

    def _cleaned(self, order: LaunchOrder, facts: dict[str, object]) -> dict[str, object]:
        """The same, with nothing secret in what it says."""
        try:
            return {**facts, "error": secrets.forms(self._course, order).clean(str(facts["error"]))}
        except SandboxFault:
            return facts  # it is gone with all that is inside: what is said is the platform's own

    def _run(self, order: LaunchOrder) -> Exit:
        course = self._course
        opening = self._folder.facts(Stage.OPENING)
        if opening is None:
            if self._surprises >= SURPRISES_MAX:
                raise SandboxFault("this node could not prepare the attempt; its log says why")
            launching.prepare(course, order)
            bring_image(course, order)
            sandbox_id = launching.make(course, order)
        else:
            sandbox_id = SandboxId(opening["sandbox_id"])
            if not closing.is_held(course, order):
                return self._left_exit(order, sandbox_id, SandboxFault("the sandbox is gone and left no record"))
        if not self._is_opened:
            try:
                launching.open_gate(course, order, sandbox_id)
            except SandboxFault as fault:
                return self._left_exit(order, sandbox_id, fault)
        return self._tended(order, sandbox_id)

    def _tended(self, order: LaunchOrder, sandbox_id: SandboxId) -> Exit:
        tools, course = self._course.tools, self._course
        isolation = (self._folder.facts(Stage.OPENING) or {})["isolation"]
        prepare_us = (self._folder.facts(Stage.OPENED) or {}).get("prepare_us", 0)
        started = Started(fence=self.fence, prepare_us=prepare_us, isolation=isolation)
        running = Running(course.box(order.level), sandbox_id, order, started)
        tender = Tender(
            running,
            tools.api,
            tools.contact,
            course.log_pump,
            lambda: course.wish,
            course.heed,
            course.drop,
            is_open=self._is_opened,
        )
        tender.start()
        course.tell_wishes_to(tender.wake)
        try:
            return self._wait(order, sandbox_id)
        finally:
            tender.finish()

    def _wait(self, order: LaunchOrder, sandbox_id: SandboxId) -> Exit:
        course, box = self._course, self._course.box(order.level)
        back_off = BackOff(course.tools.leaving)
        while True:
            try:
                found = course.with_engine(lambda: box.wait(sandbox_id, order, LOOK_S))
            except SandboxFault as fault:
                # that nobody tells how it ended does not mean that it ended
                log.warning("%s: %s", self.id, fault)
                if not closing.is_held(course, order, must_live=True):
                    raise
                back_off.pause()
                continue
            if found is not None:
                if course.is_dropped:
                    raise Dropped
                return found
            if course.tools.leaving.is_set():
                raise Leaving

    def _left_exit(self, order: LaunchOrder, sandbox_id: SandboxId, fault: SandboxFault) -> Exit:
        """What the runner wrote down of a sandbox that is gone, or whose gate cannot be opened; else the fault."""
        launching.note_opening(self._course, order.state_dir)
        left = self._course.with_engine(lambda: self._course.box(order.level).wait(sandbox_id, order, LOOK_S))
        if left is None:
            raise fault
        return left

    @property
    def _is_opened(self) -> bool:
        return self._folder.facts(Stage.OPENED) is not None

    def _time_since_opening_us(self) -> int:
        """For a run whose end nobody saw: it held its devices until now."""
        opened, claimed = self._folder.facts(Stage.OPENED), self._folder.facts(Stage.CLAIMED) or {}
        if opened is None or claimed["boot_id"] != boot_clock.boot_id():
            return 0
        return max(0, boot_clock.now_us() - int(opened["opened_us"]))

    def _count_surprise(self) -> None:
        if self._folder.facts(Stage.OPENING) is None:
            self._surprises += 1

    def _discard(self) -> None:
        """Remove what is held for this fence, and nothing else."""
        facts = self._folder.facts(Stage.CLAIMED)
        if facts is not None:
            closing.remove(self._course, launching.claim(self._course))
        self._folder.delete()
