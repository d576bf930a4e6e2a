"""Keeps the node's images: pulled before their jobs' turn, looked at for the catalogue, taken away when unused."""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from corral.node import FoundSetting, ImageFindings, ImageReport, ImageTask, PullReport

from domain.images import version_text
from sandbox.contract import EngineAway, ImageRefused, SandboxFault
from sandbox.image_gate import examine
from sandbox.image_store import ImageStore, KeepRule
from sandbox.pull import Progress
from worker.api_link import ApiFault, ApiLink
from worker.signatures import Signatures

log = logging.getLogger(__name__)

AHEAD_MAX: Final = 2
"""Pulls at once for jobs whose turn has not come; a job that waits for its own never stands behind these."""
COLLECT_EVERY_S: Final = 600.0
REPORTED_MAX: Final = 1000
FINDINGS_MAX, REFUSALS_MAX = 1000, 100
CHARACTERS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Keeping:
    """What the keeper works with."""

    images: ImageStore
    signatures: Signatures
    rule: KeepRule


class ImageKeeper:
    """Threads of its own; none of what it does may delay a heartbeat."""

    def __init__(
        self, keeping: Keeping, api: ApiLink, leaving: threading.Event, used: Callable[[], frozenset[str]]
    ) -> None:
        """`used` tells the references of all attempts on the node."""
        self._keeping = keeping
        self._used = used
        self._api = api
        self._leaving = leaving
        self._lock = threading.Lock()
        self._busy_with: set[tuple[str, bool]] = set()
        """What has a thread: reference, and whether it is to be looked at."""
        self._wanted: frozenset[str] = frozenset()
        self._turn = threading.Semaphore(AHEAD_MAX)
        self._collector = threading.Thread(target=self._collect_always, name="collect-images", daemon=True)

    def start(self) -> None:
        """Begin to clean up."""
        self._collector.start()

    def heed(self, tasks: list[ImageTask]) -> None:
        """What the answer to a heartbeat says is wanted. Returns at once."""
        self._wanted = frozenset(task.reference for task in tasks)
        for task in tasks:
            what = (task.reference, task.is_to_check)
            with self._lock:
                if what in self._busy_with:
                    continue
                self._busy_with.add(what)
            threading.Thread(target=self._do, args=[task], name=f"image-{task.reference[-12:]}", daemon=True).start()

    def reports(self) -> list[ImageReport]:
        """What the heartbeat says of images."""
        found = {
            name: ImageReport(reference=name, size_bytes=note.size_bytes)
            for name, note in self._keeping.images.notes().items()
        }
        for name, pull in self._keeping.images.pulls().items():
            found[name] = ImageReport(reference=name, pull=pull_report(pull.progress()))
        return [found[name] for name in sorted(found)][:REPORTED_MAX]

    def _do(self, task: ImageTask) -> None:
        try:
            with self._turn:
                if self._leaving.is_set():
                    return
                if task.is_to_check:
                    self._api.image_findings(self._found(task))
                elif (pull := self._keeping.images.ensure(task.reference)) is not None:
                    pull.result()
        except (ApiFault, SandboxFault) as fault:
            log.info("%s: %s", task.reference, fault)
        except Exception:
            log.exception("the work on %s failed", task.reference)  # edge of the thread: it is asked for again
        finally:
            with self._lock:
                self._busy_with.discard((task.reference, task.is_to_check))

    def _found(self, task: ImageTask) -> ImageFindings:
        reference, signed_by = task.reference, None
        try:
            if task.signature is not None:
                signed_by = self._keeping.signatures.check(reference, task.signature)
            examined = examine(reference, self._keeping.images.present(reference), os.uname().machine)
        except ImageRefused as refusal:
            return ImageFindings(reference=reference, refusals=[str(refusal)[:CHARACTERS_MAX]])
        except SandboxFault as fault:
            return ImageFindings(reference=reference, trouble=str(fault)[:CHARACTERS_MAX])
        return ImageFindings(
            reference=reference,
            findings=[
                FoundSetting(name=each.name[:300], found=each.found[:CHARACTERS_MAX], instead=each.instead)
                for each in examined.findings[:FINDINGS_MAX]
            ],
            refusals=[text[:CHARACTERS_MAX] for text in examined.refusals[:REFUSALS_MAX]],
            cuda=None if examined.cuda is None else version_text(examined.cuda),
            size_bytes=examined.size_bytes,
            signed_by=signed_by,
        )

    def _collect_always(self) -> None:
        while not self._leaving.wait(COLLECT_EVERY_S):
            try:
                self._keeping.images.collect(self._wanted | self._used(), self._keeping.rule)
            except EngineAway as fault:
                log.info("images are not collected now: %s", fault)
            except Exception:
                log.exception("collecting images failed and is tried again")  # edge of the thread


def pull_report(progress: Progress) -> PullReport:
    """As the API is told."""
    return PullReport(
        layers_done=progress.layers_done,
        layers=progress.layers,
        bytes_done=progress.bytes_done,
        bytes_total=progress.bytes_total,
    )
