"""The second half of an attempt: its output stored, its sandbox removed, its devices looked at, its end told."""

import logging
import os

from corral.node import Ended

from domain.levels import Level
from sandbox import boot_clock
from sandbox.collect import CollectLimits
from sandbox.contract import Collected, Held, LaunchOrder, Sandbox, SandboxFault, SandboxId, Skipped
from worker import endings, secrets
from worker.api_link import Refused
from worker.artifacts import store_all
from worker.contact import BackOff
from worker.course import Course
from worker.state_folder import Stage

log = logging.getLogger(__name__)


def collect(course: Course, order: LaunchOrder) -> None:
    """Store the rest of the log and what was left in /out."""
    if course.folder.facts(Stage.COLLECTED) is not None:
        return
    ended = course.folder.facts(Stage.ENDED) or {}
    skipped: tuple[Skipped, ...] = ()
    if ended["is_opened"]:
        _flush_log(course)
        skipped = _store_output(course, order)
    course.folder.note(Stage.COLLECTED, skipped=[[each.name, each.reason] for each in skipped])


def release(course: Course, order: LaunchOrder) -> Ended:
    """Remove the sandbox, look at its devices, and write the final report."""
    if (facts := course.folder.facts(Stage.RELEASED)) is not None:
        return Ended.model_validate(facts["report"])
    remove(course, order)
    report = _report(course, order)
    course.folder.note(Stage.RELEASED, report=report.model_dump(mode="json"))
    return report


def remove(course: Course, order: LaunchOrder) -> None:
    """Remove what the backends hold of the attempt; tried until it is gone, because its devices are not free before."""
    box = course.tools.boxes.get(Level(order.level))
    if box is None:
        return
    back_off = BackOff(course.tools.leaving)
    while True:
        try:
            for sandbox_id in _known(course, box):
                box.remove(sandbox_id, order)
            return
        except (SandboxFault, OSError) as fault:
            log.warning("%s: its sandbox cannot be removed yet: %s", order.attempt_id, fault)
            back_off.pause()


def is_held(course: Course, order: LaunchOrder, must_live: bool = False) -> bool:
    """Whether its backend lists the attempt's sandbox. Asked until there is an answer: silence is no word of it."""
    box = course.box(order.level)
    back_off = BackOff(course.tools.leaving)
    while True:
        try:
            return any(held.is_alive or not must_live for held in _listed(course, box))
        except (SandboxFault, OSError) as fault:
            log.warning("%s: its backend does not list what it holds: %s", order.attempt_id, fault)
            back_off.pause()


def tell(course: Course, report: Ended) -> None:
    """Tell the end until it is taken down.

    Raises:
        Dropped: nobody wants to know.
    """
    api, attempt_id = course.tools.api, course.folder.attempt_id
    try:
        course.with_api(lambda: api.ended(attempt_id, report))
    except Refused as refusal:
        log.error("%s: its end was refused (%s) and is told in short", attempt_id, refusal)
        course.with_api(lambda: api.ended(attempt_id, endings.bare(report)))


def _known(course: Course, box: Sandbox) -> set[SandboxId]:
    """Every name under which something of the attempt may be left: as listed, and as journaled."""
    listed = {held.sandbox_id for held in _listed(course, box)}
    opening = course.folder.facts(Stage.OPENING)
    return listed if opening is None else listed | {SandboxId(opening["sandbox_id"])}


def _listed(course: Course, box: Sandbox) -> list[Held]:
    mine = (course.folder.attempt_id, course.folder.fence)
    return [held for held in box.list() if (held.attempt_id, held.fence) == mine]


def _flush_log(course: Course) -> None:
    while course.log_pump.is_behind():
        course.with_api(course.log_pump.step)


def _store_output(course: Course, order: LaunchOrder) -> tuple[Skipped, ...]:
    settings, api, folder = course.tools.settings, course.tools.api, course.folder
    limits = CollectLimits(
        files_max=settings.artifacts_max,
        file_bytes_max=settings.artifact_bytes_max,
        total_bytes_max=max(order.output_bytes, 1),
    )

    def put(found: Collected) -> None:
        name = forms.clean(found.name)
        course.with_api(lambda: api.put_artifact(folder.attempt_id, folder.fence, name, found.fd, found.size_bytes))

    sandbox_id = SandboxId((folder.facts(Stage.OPENING) or {})["sandbox_id"])
    try:
        forms = secrets.forms(course, order)
        root_fd = course.with_engine(lambda: course.box(order.level).output_fd(sandbox_id, order))
    except SandboxFault as fault:
        return (Skipped("/out", f"it could not be read after the end: {fault}"),)
    try:
        skipped = store_all(root_fd, limits, put)
        return tuple(Skipped(forms.clean(each.name), forms.clean(each.reason)) for each in skipped)
    except OSError as error:
        return (Skipped("/out", f"it could not be read to its end: {error.strerror}"),)
    finally:
        os.close(root_fd)


def _report(course: Course, order: LaunchOrder) -> Ended:
    folder, tools = course.folder, course.tools
    ended, claimed = folder.facts(Stage.ENDED) or {}, folder.facts(Stage.CLAIMED) or {}
    opened, opening = folder.facts(Stage.OPENED), folder.facts(Stage.OPENING) or {}
    mine = frozenset(grant.uuid for grant in order.devices)
    others = tools.held_devices() - mine
    if mine:
        tools.devices.look(others, tools.pids_of_ours)
    found = tools.devices.reports(others, mine) if mine else []
    now_us = boot_clock.now_us() - course.away_us
    is_same_boot = claimed["boot_id"] == boot_clock.boot_id()
    if opened is not None:
        prepare_us = opened["prepare_us"]
        stop_us = now_us - opened["opened_us"] - ended["run_us"] if is_same_boot else 0
    else:
        prepare_us, stop_us = (now_us - claimed["claimed_us"] if is_same_boot else 0), 0
    skipped = [Skipped(name, reason) for name, reason in (folder.facts(Stage.COLLECTED) or {})["skipped"]]
    facts = endings.blamed_on_device(ended, found)
    isolation, lost_us = opening.get("isolation"), course.away_us
    return endings.report(folder.fence, facts, prepare_us, stop_us, lost_us, isolation, skipped, found)
