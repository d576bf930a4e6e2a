"""Writes artifacts below a directory: a name from the server never reaches outside, and a wrong byte never stays."""

import hashlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self

from corral.errors import UnsafeDownload
from corral.jobs import ArtifactView

HELP = "download it by hand, if you trust it"


def target_of(directory: Path, name: str) -> Path:
    """Where below `directory` the artifact `name` goes.

    Raises:
        UnsafeDownload: that place is outside, or no place at all.
    """
    segments = name.split("/")
    for segment in segments:
        if segment in ("", ".", "..") or "\0" in segment or _is_special(segment):
            raise UnsafeDownload(f"the artifact's name {name!r} is not safe as a path", HELP)
    target = directory.joinpath(*segments)
    if not target.parent.resolve().is_relative_to(directory.resolve()) or target.is_dir():
        raise UnsafeDownload(f"{target} lies outside {directory}, or is a directory", "choose an empty directory")
    return target


class Incoming:
    """One artifact on its way. It takes its place only when it is whole; a link that stands there is replaced."""

    def __init__(self, artifact: ArtifactView, directory: Path) -> None:
        self.target = target_of(directory, artifact.name)
        self._artifact = artifact
        self._digest = hashlib.sha256()
        self._size_bytes = 0

    def __enter__(self) -> Self:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._partial = self.target.parent / f".download-{secrets.token_hex(8)}"
        self._stream = self._partial.open("xb")
        return self

    def write(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._stream.write(chunk)
        self._digest.update(chunk)
        self._size_bytes += len(chunk)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stream.close()
            if error is None:
                self._check()
                self._partial.replace(self.target)
        finally:
            self._partial.unlink(missing_ok=True)

    def _check(self) -> None:
        if f"sha256:{self._digest.hexdigest()}" != self._artifact.sha256:
            raise UnsafeDownload(
                f"{self._artifact.name!r} came as {self._size_bytes} bytes with another SHA-256 than recorded",
                "download it again",
            )


def _is_special(segment: str) -> bool:
    """Whether a segment means more than a name on this system."""
    return os.name == "nt" and any(char in segment for char in '\\:"<>|?*')
