"""The node's own name and token, kept in its data folder, readable by its owner only."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from domain.ids import NodeId

FILE = "credential.json"


@dataclass(frozen=True, slots=True)
class Credential:
    """What the API gave this node when it joined."""

    node_id: NodeId
    node_name: str
    token: str = field(repr=False)


def load(data_dir: Path) -> Credential | None:
    """The credential of an earlier joining, if there was one."""
    try:
        found = json.loads((data_dir / FILE).read_text())
    except FileNotFoundError:
        return None
    return Credential(NodeId(found["node_id"]), found["node_name"], found["token"])


def save(data_dir: Path, credential: Credential) -> None:
    """Keep it, whole or not at all: it is shown once, and a node without it cannot come back."""
    draft = data_dir / f"{FILE}.new"
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(asdict(credential), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(data_dir / FILE)
    folder = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
