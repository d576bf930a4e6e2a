"""An attempt's own folder on the node: its journal, written to disk before the step that each line allows."""

import contextlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from domain.ids import AttemptId, Fence

JOURNAL = "stages.jsonl"
LEFTOVER = ".gone"
log = logging.getLogger(__name__)
ATTEMPT = re.compile(r"att_[0-9a-z]{26}")


class Stage(StrEnum):
    """How far an attempt has come here. Each is journaled with the facts that a restart needs."""

    CLAIMING = "claiming"
    """Before the API is asked; with the fence."""
    CLAIMED = "claimed"
    """The order came; with it, the boot-time and the boot id."""
    UNPACKED = "unpacked"
    """The inputs lie in the folder."""
    OPENING = "opening"
    """Before the gate is opened: from here on the sandbox is never made anew. With the isolation record."""
    OPENED = "opened"
    ENDED = "ended"
    """The tenant's command is over, or will never run; with why."""
    COLLECTED = "collected"
    """What was in /out is stored; with what was skipped."""
    RELEASED = "released"
    """The sandbox is gone; with the final report, word for word."""


class StateFolder:
    """One attempt's folder, opened."""

    def __init__(self, path: Path, facts: dict[Stage, dict[str, Any]]) -> None:
        self.path = path
        self.attempt_id = AttemptId(path.name)
        self._facts = facts

    @property
    def fence(self) -> Fence:
        return Fence(self._facts[Stage.CLAIMING]["fence"])

    @property
    def log(self) -> Path:
        """Where the runner keeps the output of the tenant's command."""
        return self.path / "log"

    @property
    def input_dir(self) -> Path:
        return self.path / "in"

    def facts(self, stage: Stage) -> dict[str, Any] | None:
        """What was journaled of a stage; None if it was not reached."""
        return self._facts.get(stage)

    def note(self, stage: Stage, **facts: Any) -> None:
        """Journal a stage; it is on disk when this returns. A stage noted before stays as it was.

        Raises:
            OSError: it cannot be written; then nothing of it is.
        """
        if stage in self._facts:
            return
        line = json.dumps({"stage": stage, **facts}, separators=(",", ":")).encode() + b"\n"
        fd = os.open(self.path / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            whole = os.fstat(fd).st_size
            try:
                _write_all(fd, line)
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, whole)  # half a line would spoil the next one
                raise
        finally:
            os.close(fd)
        self._facts[stage] = facts

    def delete(self) -> None:
        """Forget the attempt. Nothing in the folder was ever writable from inside a sandbox."""
        gone = self.path.with_name(self.path.name + LEFTOVER)
        shutil.rmtree(gone, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def create(root: Path, attempt_id: AttemptId, fence: Fence) -> StateFolder:
    """A new folder that says which attempt is about to be claimed.

    Raises:
        OSError: it cannot be made, or is there already; what was begun is gone, so that it can be tried again.
    """
    path = root / attempt_id
    path.mkdir(mode=0o700)
    folder = StateFolder(path, {})
    try:
        folder.note(Stage.CLAIMING, fence=fence)
        _sync(path)
        _sync(root)
    except OSError:
        folder.delete()
        raise
    return folder


def found(root: Path) -> Iterator[StateFolder]:
    """Every attempt's folder of an earlier life of the agent; what was half deleted or never begun is swept away."""
    for path in sorted(root.iterdir()):
        if ATTEMPT.fullmatch(path.name) is None:
            if path.name.endswith(LEFTOVER):
                shutil.rmtree(path, ignore_errors=True)
            continue
        try:
            folder = _open(path)
        except (ValueError, KeyError) as error:
            log.error("the journal in %s is damaged, and what it is about is left alone: %s", path, error)
            continue
        if folder.facts(Stage.CLAIMING) is None:
            if {entry.name for entry in path.iterdir()} <= {JOURNAL}:
                folder.delete()  # it died before the first line: nothing was asked for yet
            continue  # what else lies there belongs to a sandbox, and its backend names it
        yield folder


def _open(path: Path) -> StateFolder:
    """Read the journal; a last line that was cut short by a crash allowed nothing, and is taken out."""
    journal = path / JOURNAL
    try:
        data = journal.read_bytes()
    except FileNotFoundError:
        return StateFolder(path, {})
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        os.truncate(journal, len(whole))
    facts: dict[Stage, dict[str, Any]] = {}
    for line in whole.splitlines():
        entry = json.loads(line)
        facts[Stage(entry.pop("stage"))] = entry
    return StateFolder(path, facts)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
