"""Notes of what exists on this node, written before it is made and torn up after it is gone: a crash hides nothing."""

import json
from collections.abc import Mapping
from pathlib import Path

from domain.ids import AttemptId, Fence, TenantId
from sandbox.contract import Held, SandboxId
from sandbox.hardening import LABEL_ATTEMPT, LABEL_FENCE, LABEL_STATE, LABEL_TENANT


def held_by_labels(sandbox: str, labels: Mapping[str, str], is_alive: bool) -> Held:
    """A sandbox as its labels describe it."""
    return Held(
        sandbox_id=SandboxId(sandbox),
        attempt_id=AttemptId(labels[LABEL_ATTEMPT]),
        fence=Fence(int(labels[LABEL_FENCE])),
        tenant_id=TenantId(labels[LABEL_TENANT]),
        state_dir=Path(labels[LABEL_STATE]),
        is_alive=is_alive,
    )


class HeldNotes:
    """One small file for each sandbox: its labels."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def note(self, sandbox: str, labels: Mapping[str, str]) -> None:
        """Remember that it exists, from now on and whatever dies. A node that loses power loses the sandbox as well."""
        draft = self._draft(sandbox)
        draft.write_text(json.dumps(labels))
        draft.replace(self._file(sandbox))

    def forget(self, sandbox: str) -> None:
        self._draft(sandbox).unlink(missing_ok=True)  # a full disk may have left half of one
        self._file(sandbox).unlink(missing_ok=True)

    def labels(self, sandbox: str) -> Mapping[str, str] | None:
        """What was noted of it; None if nothing was."""
        try:
            found: dict[str, str] = json.loads(self._file(sandbox).read_text())
        except FileNotFoundError:
            return None
        return found

    def names(self) -> tuple[str, ...]:
        """Every sandbox that is noted."""
        return tuple(sorted(file.stem for file in self._folder.glob("*.json")))

    def _draft(self, sandbox: str) -> Path:
        return self._folder / f"{sandbox}.new"

    def _file(self, sandbox: str) -> Path:
        return self._folder / f"{sandbox}.json"
