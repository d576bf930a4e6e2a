"""The first half of an attempt: claimed, prepared, looked at, opened. Nothing of the tenant's runs before the last."""

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from corral.node import Ended, Order, Progress

from domain.ids import AttemptId
from sandbox import boot_clock
from sandbox.contract import DeviceGrant, LaunchOrder, Sandbox, SandboxFault, SandboxId
from sandbox.runner_link import JOURNAL
from sandbox.unpack import UnpackLimits
from worker import endings, orders, secrets
from worker.api_link import ApiFault, Away, Damaged, Refused, Stale, Unknown
from worker.contact import BackOff, Leaving
from worker.course import Course, Dropped
from worker.device_watch import why_not_these
from worker.preparation import unpack_inputs
from worker.state_folder import Stage

log = logging.getLogger(__name__)

DOWNLOADS_MAX = 3
"""Tries to get an input undamaged."""
CONTACT_LOOK_S = 0.5
"""How often a wait for the API's answer looks whether the attempt is still wanted."""


def claim(course: Course) -> LaunchOrder:
    """The order of this attempt: from the journal, or from the API, which gives it again to who asks again.

    Raises:
        Dropped: it is not this node's to run.
        Leaving: the agent ends before the API answered.
    """
    folder = course.folder
    if (facts := folder.facts(Stage.CLAIMED)) is None:
        order = _ask(course)
        claimed_us, acked_us = boot_clock.now_us(), course.tools.contact.acked_us
        facts = orders.journaled(order, course.tools.node_id, claimed_us, boot_clock.boot_id(), acked_us)
        folder.note(Stage.CLAIMED, **facts)
    return orders.launch_order(facts, folder.path, course.tools.settings)


def prepare(course: Course, order: LaunchOrder) -> None:
    """Bring the inputs.

    Raises:
        InputRefused: an input cannot be unpacked.
        SandboxFault: they cannot be stored here.
    """
    inputs = orders.ordered(course.folder.facts(Stage.CLAIMED) or {}).inputs
    if not inputs or course.folder.facts(Stage.UNPACKED) is not None:
        return
    bytes_max = course.tools.settings.input_bytes_max
    _tell(course, "its inputs are fetched and unpacked")

    def fetch(sha256: str, into: Path) -> None:
        try:
            course.tools.api.download_input(sha256, order.attempt_id, into, bytes_max)
        except Unknown as fault:
            raise SandboxFault("an input is not stored any more") from fault

    def download(sha256: str, into: Path) -> None:
        for _ in range(DOWNLOADS_MAX):
            with suppress(Damaged):
                course.with_api(lambda: fetch(sha256, into))
                return
        raise SandboxFault("an input came damaged each time")

    try:
        unpack_inputs(inputs, course.folder.input_dir, download, UnpackLimits(total_bytes_max=bytes_max))
    except Refused as refusal:
        raise SandboxFault(f"an input cannot be fetched: {refusal}") from refusal
    except OSError as error:
        raise SandboxFault(f"the inputs cannot be stored on the node: {error.strerror}") from error
    course.folder.note(Stage.UNPACKED)


def make(course: Course, order: LaunchOrder) -> SandboxId:
    """Make the sandbox, look at it, and journal that its gate may be opened.

    Raises:
        SandboxFault: it cannot be made, is weaker than asked, or the devices are not those that were assigned.
        Dropped, StoppedEarly: nobody wants it any more.
    """
    box = course.box(order.level)
    course.check()
    values = secrets.fetched(course, order)
    with _look_beside(course, order.devices) as why_not:
        sandbox_id = course.with_engine(lambda: box.create(order, values))
        course.check()
        record = course.with_engine(lambda: box.verify(sandbox_id, order))
        if (why := why_not()) is not None:
            raise SandboxFault(f"the devices are not those that were assigned: {why}")
    _await_contact(course)
    _renew_reach(course, box, sandbox_id, order)
    course.check()
    course.folder.note(Stage.OPENING, sandbox_id=sandbox_id, isolation=asdict(record))
    return sandbox_id


def open_gate(course: Course, order: LaunchOrder, sandbox_id: SandboxId) -> None:
    """Open it, and note how long the preparation took."""
    course.with_engine(lambda: course.box(order.level).start(sandbox_id, order))
    note_opening(course, order.state_dir)


def note_opening(course: Course, state_dir: Path) -> None:
    """Take down when the runner opened the gate, if it did."""
    opened_us = gate_opened_us(state_dir)
    claimed = course.folder.facts(Stage.CLAIMED) or {}
    if opened_us is not None and claimed["boot_id"] == boot_clock.boot_id():
        course.folder.note(Stage.OPENED, opened_us=opened_us, prepare_us=max(0, opened_us - claimed["claimed_us"]))


def gate_opened_us(state_dir: Path) -> int | None:
    """Boot-time at which the runner opened the gate, by its own journal."""
    try:
        lines = (state_dir / JOURNAL).read_bytes().split(b"\n")
    except FileNotFoundError:
        return None
    for line in lines[:-1]:
        if b'"opened"' in line:
            entry: dict[str, Any] = json.loads(line)
            if entry["what"] == "opened":
                return int(entry["at_us"])
    return None


def _ask(course: Course) -> Order:
    """Claim it. An attempt that was claimed by an earlier life of this agent and told to stop since is closed here."""
    attempt_id, fence = course.folder.attempt_id, course.folder.fence
    back_off = BackOff(course.tools.leaving)
    while True:
        if course.is_dropped:
            raise Dropped
        try:
            return course.tools.api.claim(attempt_id, fence)
        except Away:
            back_off.pause()
        except Stale as fault:
            _close_if_stopping(course, attempt_id)
            raise Dropped from fault
        except (Unknown, Refused) as fault:
            log.info("%s: not claimed: %s", attempt_id, fault)
            raise Dropped from fault


def _close_if_stopping(course: Course, attempt_id: AttemptId) -> None:
    """Nothing was ever made for it, so its end can be told at once; if it is over or another's, nothing is told."""
    fence, api = course.folder.fence, course.tools.api
    try:
        standing = course.with_api(lambda: api.progress(attempt_id, Progress(fence=fence, text="nothing of it runs")))
    except Refused:
        return
    if standing.state != "stopping":
        return
    facts = endings.of_stop(endings.stop_reason(standing.stop_reason))
    devices = course.tools.devices.reports(course.tools.held_devices())
    ended: Ended = endings.report(fence, facts, 0, 0, 0, None, (), devices)
    course.with_api(lambda: api.ended(attempt_id, ended))


@contextmanager
def _look_beside(course: Course, granted: tuple[DeviceGrant, ...]) -> Iterator[Callable[[], str | None]]:
    """Look at the devices while the sandbox is made: asking the driver takes longer than that.

    What is yielded waits for the look, and says why the devices present are not exactly those that were assigned.
    """
    watch, tools = course.tools.devices, course.tools
    if all(grant.is_simulated for grant in granted):
        yield lambda: why_not_these(granted, watch.inventory)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="look") as pool:
        look = pool.submit(watch.look, tools.held_devices(), tools.pids_of_ours)
        yield lambda: why_not_these(granted, look.result())


def _await_contact(course: Course) -> None:
    """A node that has not been heard of lately starts nothing new, even what it has prepared."""
    while course.tools.contact.is_silent(boot_clock.now_us()):
        course.check()
        if course.tools.leaving.is_set():
            raise Leaving
        course.tools.contact.wait(CONTACT_LOOK_S)


def _renew_reach(course: Course, box: Sandbox, sandbox_id: SandboxId, order: LaunchOrder) -> None:
    """A long preparation has used up patience with silence that heartbeats have since renewed."""
    acked_us = course.tools.contact.acked_us
    if acked_us is None or order.max_unreachable_us is None or order.unreachable_at_us is None:
        return
    deadline_us = acked_us + order.max_unreachable_us
    if deadline_us > order.unreachable_at_us:
        course.with_engine(lambda: box.extend(sandbox_id, order, deadline_us))


def _tell(course: Course, text: str) -> None:
    """For the job's page; if it cannot be told, nothing depends on it."""
    attempt_id = course.folder.attempt_id
    try:
        course.heed(course.tools.api.progress(attempt_id, Progress(fence=course.folder.fence, text=text)))
    except ApiFault as fault:
        log.info("%s: its progress was not told: %s", attempt_id, fault)
