"""The images on the node's engine: brought by digest, one pull for all who want one, and taken away again.

Only what this worker pulled is ever removed. What it pulled is noted in a file, since an engine cannot tell.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sandbox.contract import ImageMissing, SandboxFault
from sandbox.engine_client import EngineClient
from sandbox.pull import Pull

log = logging.getLogger(__name__)

DAY_US: Final = 86_400_000_000
JUST_USED_US: Final = 600_000_000
"""What was used so lately is never removed: an attempt may be about to start from it."""
NOTE_AGAIN_US: Final = 60_000_000
"""A use is written down only if the last one in the file is this old."""


@dataclass(frozen=True, slots=True)
class Note:
    """An image that this worker pulled. Times are of the wall clock: they decide on a cache, and on no job."""

    pulled_us: int
    used_us: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class KeepRule:
    """Which images are kept."""

    unused_us: int
    """One that was not used for so long is removed."""
    disk_percent_max: int
    """While the engine's disk is fuller, the least recently used go."""


def removable(notes: Mapping[str, Note], wanted: Collection[str], now_us: int) -> list[str]:
    """What could go, the least recently used first: nothing that is wanted, and nothing that was used just now."""
    idle = [name for name, note in notes.items() if name not in wanted and now_us - note.used_us >= JUST_USED_US]
    return sorted(idle, key=lambda name: (notes[name].used_us, name))


class ImageStore:
    """Safe to share between threads."""

    def __init__(self, engine: EngineClient, notes_file: Path, clock_us: Callable[[], int] | None = None) -> None:
        """`notes_file` is the same after a restart. Asks the engine nothing."""
        self._engine = engine
        self._file = notes_file
        self._clock_us = clock_us or (lambda: time.time_ns() // 1000)
        self._lock = threading.Lock()
        self._notes = _read(notes_file)
        self._here: set[str] = set()
        """References seen here and not removed since."""
        self._pulls: dict[str, Pull] = {}

    def ensure(self, reference: str) -> Pull | None:
        """None if the image is here; else its pull, which others may wait for too.

        Raises:
            ImageMissing: it is not here, and no registry is named.
            EngineAway: the engine does not answer.
        """
        with self._lock:
            if reference in self._here:
                self._use(reference)
                return None
            if (running := self._pulls.get(reference)) is not None:
                return running
        try:
            self._engine.image(reference)
        except ImageMissing:
            if "@" not in reference:  # an image built on a node is nowhere else
                raise
        else:
            with self._lock:
                self._here.add(reference)
                self._use(reference)
            return None
        with self._lock:
            if (running := self._pulls.get(reference)) is None:
                running = self._pulls[reference] = Pull(reference, self._bring)
                running.start()
            return running

    def present(self, reference: str) -> dict[str, Any]:
        """The engine's inspect of the image, which is brought here if it is not.

        Raises:
            ImageMissing: it is neither here nor to be had.
            EngineAway: the engine does not answer.
        """
        if (pull := self.ensure(reference)) is not None:
            pull.result()
        return self._engine.image(reference)

    def missed(self, reference: str) -> None:
        """It was found to be gone, whoever took it: look again next time."""
        with self._lock:
            self._here.discard(reference)

    def pulls(self) -> dict[str, Pull]:
        """What is being pulled now."""
        with self._lock:
            return dict(self._pulls)

    def notes(self) -> dict[str, Note]:
        """What this worker has pulled and not removed."""
        with self._lock:
            return dict(self._notes)

    def collect(self, wanted: Collection[str], rule: KeepRule) -> list[str]:
        """Remove what the rule no longer keeps, and what is `wanted` never; what was removed.

        Raises:
            EngineAway: the engine does not answer.
        """
        removed = []
        for reference in removable(self.notes(), wanted, self._clock_us()):
            idle_us = self._clock_us() - self.notes()[reference].used_us
            if idle_us < rule.unused_us and self._disk_percent() <= rule.disk_percent_max:
                break
            if self._remove(reference):
                removed.append(reference)
        return removed

    def _bring(self, pull: Pull) -> None:
        """The work of a pull's thread."""
        reference = pull.reference
        try:
            self._engine.pull(reference, pull.heard)
            size_bytes = int(self._engine.image(reference).get("Size", 0))
            now_us = self._clock_us()
            with self._lock:
                self._here.add(reference)
                self._notes[reference] = Note(now_us, now_us, size_bytes)
                self._write()
        finally:
            with self._lock:
                self._pulls.pop(reference, None)

    def _remove(self, reference: str) -> bool:
        """Under the lock, so that nobody who asked for it meanwhile was told that it is here."""
        with self._lock:
            note = self._notes.get(reference)
            if note is None or self._clock_us() - note.used_us < JUST_USED_US:
                return False
            try:
                is_gone = self._engine.remove_image(reference)
            except SandboxFault as fault:
                log.warning("%s stays: %s", reference, fault)
                return False
            if not is_gone:
                return False  # a container holds it
            self._here.discard(reference)
            del self._notes[reference]
            self._write()
        log.info("%s was removed: not used since %d", reference, note.used_us)
        return True

    def _use(self, reference: str) -> None:
        note, now_us = self._notes.get(reference), self._clock_us()
        if note is not None and abs(now_us - note.used_us) >= NOTE_AGAIN_US:
            self._notes[reference] = Note(note.pulled_us, now_us, note.size_bytes)
            self._write()

    def _write(self) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps({name: asdict(note) for name, note in self._notes.items()}))
        draft.replace(self._file)

    def _disk_percent(self) -> int:
        found = os.statvfs(self._engine.info()["DockerRootDir"])
        return 100 - 100 * found.f_bavail // found.f_blocks


def _read(file: Path) -> dict[str, Note]:
    """What was noted. Notes that are lost or not understood only mean that those images stay."""
    try:
        return {name: Note(**note) for name, note in json.loads(file.read_text()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        log.error("%s is not understood, and the images in it stay: %s", file, error)
        return {}
