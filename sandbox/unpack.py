"""Unpacks an input: regular files and directories, with modes of our own, inside a fresh directory and nowhere else."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sandbox.beneath import open_beneath
from sandbox.collect import printable
from sandbox.tar_reader import InputRefused, Kind, Member, TarReader

FILE_MODE = 0o644
PROGRAM_MODE = 0o755
DIRECTORY_MODE = 0o755


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """How large an input may grow when it is unpacked."""

    members_max: int = 100_000
    depth_max: int = 32
    name_bytes_max: int = 1024
    """Of the whole path."""
    total_bytes_max: int = 64 << 30
    seconds_max: float = 600.0


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What an input came to."""

    files: int
    directories: int
    total_bytes: int


def unpack(stream: BinaryIO, into: Path, limits: UnpackLimits) -> Unpacked:
    """Make the directory `into` and unpack a plain tar in it. What was written before a refusal stays for the caller.

    Raises:
        InputRefused: a link, a device, an absolute name, `..`, a name twice, a cap, or no plain tar.
        FileExistsError: `into` is there already.
    """
    into.mkdir(mode=DIRECTORY_MODE)
    root = os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(root, DIRECTORY_MODE)
        return _Unpacking(root, limits).run(TarReader(stream, limits.seconds_max))
    finally:
        os.close(root)


class _Unpacking:
    def __init__(self, root: int, limits: UnpackLimits) -> None:
        self._root = root
        self._limits = limits
        self._members = 0
        self._files = 0
        self._directories = 0
        self._bytes = 0

    def run(self, reader: TarReader) -> Unpacked:
        for member in reader.members():
            self._members += 1
            if self._members > self._limits.members_max:
                raise InputRefused(f"more than {self._limits.members_max} members")
            self._bytes += member.size
            if self._bytes > self._limits.total_bytes_max:
                raise InputRefused(f"more than {self._limits.total_bytes_max} bytes when unpacked")
            parts = _parts(member, self._limits)
            if member.kind is Kind.FILE:
                self._write(parts, member, reader.content)
            elif member.size:
                raise InputRefused(f"the directory '{_shown(member.name)}' has content")
            else:
                with self._parent(parts):
                    pass
        return Unpacked(self._files, self._directories, self._bytes)

    def _write(self, parts: tuple[bytes, ...], member: Member, content: Callable[[], Iterator[bytes]]) -> None:
        if not parts:
            raise InputRefused(f"a file is named '{_shown(member.name)}'")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._parent(parts[:-1]) as parent:
            try:
                fd = os.open(parts[-1], flags, 0o600, dir_fd=parent)
            except FileExistsError:
                raise InputRefused(f"'{_shown(member.name)}' is there twice") from None
            try:
                for piece in content():
                    _write_all(fd, piece)
                os.fchmod(fd, PROGRAM_MODE if member.is_executable else FILE_MODE)
            finally:
                os.close(fd)
        self._files += 1

    @contextmanager
    def _parent(self, parts: tuple[bytes, ...]) -> Iterator[int]:
        """The directory of that path, made where it is missing."""
        fd = os.dup(self._root)
        try:
            for part in parts:
                try:
                    below = self._enter(fd, part)
                finally:
                    os.close(fd)
                    fd = -1
                fd = below
            yield fd
        finally:
            if fd >= 0:
                os.close(fd)

    def _enter(self, directory: int, name: bytes) -> int:
        try:
            os.mkdir(name, DIRECTORY_MODE, dir_fd=directory)
            is_new = True
        except FileExistsError:
            is_new = False
        try:
            fd = open_beneath(directory, name, os.O_DIRECTORY)
        except NotADirectoryError:
            raise InputRefused(f"'{_shown(name)}' is a file and a directory at once") from None
        if is_new:
            self._directories += 1
            if self._directories > self._limits.members_max:
                os.close(fd)
                raise InputRefused(f"more than {self._limits.members_max} directories")
            os.fchmod(fd, DIRECTORY_MODE)  # whatever the umask is
        return fd


def _parts(member: Member, limits: UnpackLimits) -> tuple[bytes, ...]:
    """The components of a member's name, each of them harmless."""
    name = member.name
    if len(name) > limits.name_bytes_max:
        raise InputRefused(f"a name of {len(name)} bytes; at most {limits.name_bytes_max} are allowed")
    if not name or b"\0" in name:
        raise InputRefused("a member has no name, or one with a NUL")
    if name.startswith(b"/"):
        raise InputRefused(f"the name '{_shown(name)}' is absolute")
    parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
    if b".." in parts:
        raise InputRefused(f"the name '{_shown(name)}' holds '..'")
    if len(parts) > limits.depth_max:
        raise InputRefused(f"'{_shown(name)}' is deeper than {limits.depth_max} directories")
    if any(len(part) > 255 for part in parts):
        raise InputRefused(f"'{_shown(name)}' has a component longer than 255 bytes")
    return parts


def _write_all(fd: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(fd, view) :]


def _shown(name: bytes) -> str:
    return printable(os.fsdecode(name))
