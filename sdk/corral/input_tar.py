"""Packs a directory as an input: the same files give the same bytes, whoever packs them, wherever and whenever."""

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from corral.errors import InputRefused


def pack(source: Path, archive: BinaryIO) -> None:
    """Write what `source` holds (or the one file that it is) as a tar: sorted, without owners, times or links.

    Raises:
        InputRefused: something there is neither a file nor a directory, has a name that no tar can hold in one way,
            or changed while it was read.
    """
    try:
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar:
            for path, name in _members(source):
                _add(tar, path, name)
    except OSError as error:
        raise InputRefused(f"{source} cannot be packed: {error}", "name a directory that you may read") from error


def _members(source: Path) -> Iterator[tuple[Path, str]]:
    """Each file and directory with its name in the archive, a directory before what it holds."""
    if source.is_file():
        yield source.resolve(), source.name
    else:
        yield from _below(source, "")


def _below(directory: Path, prefix: str) -> Iterator[tuple[Path, str]]:
    for entry in sorted(directory.iterdir(), key=lambda entry: os.fsencode(entry.name)):
        name = prefix + entry.name
        yield entry, name
        if entry.is_dir() and not entry.is_symlink():
            yield from _below(entry, f"{name}/")


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    if any(0xD800 <= ord(char) <= 0xDFFF for char in name):
        raise InputRefused(f"the name {name!r} is not UTF-8", "rename it")
    mode = path.lstat().st_mode
    member = tarfile.TarInfo(name)  # its owner is 0 and its time 0 from the start
    if stat.S_ISDIR(mode):
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(member)
    elif stat.S_ISREG(mode):
        _add_file(tar, path, member)
    else:
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "neither a file nor a directory"
        raise InputRefused(f"{name!r} is {kind}", "an input holds files and directories only: replace or remove it")


def _add_file(tar: tarfile.TarFile, path: Path, member: tarfile.TarInfo) -> None:
    # a link put there since the look is not followed, and a pipe does not block
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise InputRefused(f"{member.name!r} is no longer a file", "try again when nothing changes there")
        member.size = found.st_size
        member.mode = 0o755 if found.st_mode & stat.S_IXUSR else 0o644
        try:
            tar.addfile(member, stream)
        except OSError as error:  # tarfile's word for a file that ended too soon, too
            raise InputRefused(
                f"{member.name!r} could not be read whole: {error}", "try again when nothing changes there"
            ) from error
