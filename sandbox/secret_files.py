"""The secrets of a sandbox, from the host's side: read where they were brought, and compared with the order."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from sandbox.comparison import Comparison
from sandbox.contract import LaunchOrder, SandboxFault
from sandbox.hardening import SECRETS_PLACE
from sandbox.observe import PROC, Observation
from sandbox.runner.redaction import read_values
from sandbox.secret_mount import inodes, size_bytes
from sandbox.wall_facts import TmpfsRule, compare_tmpfs


def secrets_in(folder: Path, names: Iterable[str]) -> Mapping[str, bytes]:
    """The values in a folder of the host's.

    Raises:
        SandboxFault: they are not there.
    """
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return read_values(fd, names)
        finally:
            os.close(fd)
    except OSError as error:
        raise SandboxFault(f"its secrets cannot be read: {error.strerror}") from error


def check_given(order: LaunchOrder, secrets: Mapping[str, bytes]) -> None:
    """Refuse values that are not exactly those of the order.

    Raises:
        SandboxFault: one is missing, or one too many.
    """
    if set(order.secrets) != set(secrets):
        raise SandboxFault("the secrets that were given are not those of the order")


def compare_secrets(comparison: Comparison, order: LaunchOrder, seen: Observation, uid: int) -> None:
    """A read-only tmpfs with the order's secrets and nothing else, for the job's user alone; or nothing at all."""
    if not order.secrets:
        comparison.exact("secrets", "none", "none" if seen.mount(SECRETS_PLACE) is None else "mounted")
        return
    count = len(order.secrets)
    compare_tmpfs(comparison, seen, TmpfsRule(SECRETS_PLACE, size_bytes(count), frozenset({"ro"}), inodes(count)))
    wanted = dict.fromkeys(order.secrets, (uid, "400"))
    comparison.exact(
        "secrets", _words(wanted), _words(_files(PROC / str(seen.pid) / "root" / SECRETS_PLACE.lstrip("/")))
    )


def _files(folder: Path) -> dict[str, tuple[int, str]]:
    """Owner and mode of each file."""
    try:
        return {entry.name: (entry.stat().st_uid, f"{entry.stat().st_mode & 0o7777:o}") for entry in os.scandir(folder)}
    except OSError as error:
        raise SandboxFault(f"the secrets at the gate cannot be looked at: {error.strerror}") from error


def _words(files: Mapping[str, tuple[int, str]]) -> str:
    return " ".join(f"{name}:{uid}:{mode}" for name, (uid, mode) in sorted(files.items()))
