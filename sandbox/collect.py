"""Collects what a job left in /out: regular files only, each skipped thing listed with its reason.

The tree is hostile. It is walked by descriptors, never by paths, after the sandbox has stopped.
"""

import errno
import os
import stat
import time
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sandbox.beneath import kind_of, open_beneath
from sandbox.contract import Collected, Skipped

NAME_SHOWN_MAX = 256
"""Most characters of a skipped thing's name that are kept."""
BLOCK_BYTES = 512
"""The unit of st_blocks, whatever the file system's own block is."""
DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""They reorder what a person reads, so that a name shows as another one."""
LINE_BREAKS = frozenset("\u2028\u2029")


@dataclass(frozen=True, slots=True)
class CollectLimits:
    """How much is taken from one /out; beyond it, things are skipped and listed."""

    files_max: int = 10_000
    entries_max: int = 100_000
    """Most entries looked at, files or not."""
    depth_max: int = 32
    name_bytes_max: int = 1024
    """Of the whole path below /out."""
    file_bytes_max: int = 64 << 30
    total_bytes_max: int = 256 << 30
    hole_bytes_max: int = 16 << 20
    """Most bytes of a file that no block stands behind: a sparse file costs its writer nothing, and its reader all."""
    seconds_max: float = 60.0
    """Time for the walk itself; what the taker of the files spends is not counted."""
    skipped_max: int = 1000
    """Most skipped things listed by name; the rest is counted."""


@dataclass(slots=True)
class _Directory:
    fd: int
    prefix: str
    entries: Iterator[os.DirEntry[str]]
    end_listing: Callable[[], None]
    depth: int

    def close(self) -> None:
        self.end_listing()
        os.close(self.fd)


class _Unreadable(Exception):
    """One entry is skipped; the message is the reason."""


class _Enough(Exception):
    """A cap on the whole walk is reached; the message is the reason."""


class Collector:
    """One walk over one /out."""

    def __init__(self, root_fd: int, limits: CollectLimits) -> None:
        """`root_fd` stays the caller's."""
        self._root_fd = root_fd
        self._limits = limits
        self._skipped: list[Skipped] = []
        self._unlisted = 0
        self._files = 0
        self._entries = 0
        self._bytes = 0
        self._spent_s = 0.0

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was left out so far, in the order met; complete when `files` is exhausted."""
        if not self._unlisted:
            return tuple(self._skipped)
        return (*self._skipped, Skipped("…", f"{self._unlisted} more were skipped and are not listed"))

    def files(self) -> Iterator[Collected]:
        """Each file in turn. Its descriptor is closed when the next is asked for; read at most `size_bytes` of it."""
        stack = [self._directory(os.dup(self._root_fd), "", 0)]
        started = time.monotonic()
        try:
            while stack:
                self._check_time(started)
                entry = next(stack[-1].entries, None)
                if entry is None:
                    stack.pop().close()
                    continue
                found = self._look(stack, entry)
                if found is None:
                    continue
                self._spent_s += time.monotonic() - started
                try:
                    yield found
                finally:
                    os.close(found.fd)
                started = time.monotonic()
        except _Enough as reason:
            self._skip("…", f"{reason}; the rest was not looked at", is_always_listed=True)
        finally:
            for directory in stack:
                directory.close()

    def _look(self, stack: list[_Directory], entry: os.DirEntry[str]) -> Collected | None:
        """The entry as a file, or nothing: then it was skipped, or is a directory and lies on the stack."""
        self._entries += 1
        if self._entries > self._limits.entries_max:
            raise _Enough(f"more than {self._limits.entries_max} entries")
        here = stack[-1]
        path = here.prefix + entry.name
        try:
            self._check_name(path)
            if entry.is_dir(follow_symlinks=False):
                stack.append(self._descend(here, entry.name, path))
                return None
            return self._open_file(here.fd, entry.name, path)
        except _Unreadable as reason:
            self._skip(path, str(reason))
        except OSError as error:
            self._skip(path, _reason_of(error))
        return None

    def _descend(self, here: _Directory, name: str, path: str) -> _Directory:
        if here.depth + 1 > self._limits.depth_max:
            raise _Unreadable(f"deeper than {self._limits.depth_max} directories")
        return self._directory(open_beneath(here.fd, os.fsencode(name), os.O_DIRECTORY), path + "/", here.depth + 1)

    @staticmethod
    def _directory(fd: int, prefix: str, depth: int) -> _Directory:
        try:
            listing = os.scandir(fd)
        except OSError:
            os.close(fd)
            raise
        return _Directory(fd, prefix, listing, listing.close, depth)

    def _open_file(self, directory: int, name: str, path: str) -> Collected:
        self._check_file(os.stat(name, dir_fd=directory, follow_symlinks=False))  # before: opening a device may act
        if self._files >= self._limits.files_max:
            raise _Enough(f"more than {self._limits.files_max} files")
        fd = open_beneath(directory, os.fsencode(name))
        try:
            found = os.fstat(fd)
            self._check_file(found)  # again: this is what was really opened
        except BaseException:
            os.close(fd)
            raise
        self._files += 1
        self._bytes += found.st_size
        return Collected(name=path, size_bytes=found.st_size, fd=fd)

    def _check_name(self, path: str) -> None:
        try:
            encoded = path.encode()
        except UnicodeEncodeError:
            raise _Unreadable("its name is not valid UTF-8") from None
        if len(encoded) > self._limits.name_bytes_max:
            raise _Unreadable(f"its path is longer than {self._limits.name_bytes_max} bytes")
        if not path.isascii() or not path.isprintable():
            for character in path:
                if unicodedata.category(character) == "Cc" or character in DIRECTION_MARKS | LINE_BREAKS:
                    raise _Unreadable("its name holds control characters")

    def _check_file(self, found: os.stat_result) -> None:
        limits = self._limits
        if not stat.S_ISREG(found.st_mode):
            raise _Unreadable(f"it is {kind_of(found.st_mode)}, not a regular file")
        if found.st_nlink > 1:
            raise _Unreadable(f"it has {found.st_nlink} hard links; a file may have one")
        if found.st_size > limits.file_bytes_max:
            raise _Unreadable(f"{found.st_size} bytes; a file may have {limits.file_bytes_max}")
        if found.st_size - found.st_blocks * BLOCK_BYTES > limits.hole_bytes_max:
            raise _Unreadable(
                f"it is sparse: {found.st_size} bytes, of which {found.st_blocks * BLOCK_BYTES} are stored"
            )
        if max(found.st_size, found.st_blocks * BLOCK_BYTES) + self._bytes > limits.total_bytes_max:
            raise _Unreadable(f"with it, more than {limits.total_bytes_max} bytes in all")

    def _check_time(self, started: float) -> None:
        if self._spent_s + time.monotonic() - started > self._limits.seconds_max:
            raise _Enough(f"the walk took longer than {self._limits.seconds_max:g} s")

    def _skip(self, path: str, reason: str, is_always_listed: bool = False) -> None:
        if is_always_listed or len(self._skipped) < self._limits.skipped_max:
            self._skipped.append(Skipped(printable(path), reason))
        else:
            self._unlisted += 1


def printable(name: str) -> str:
    """A name that is safe to show: short, with escapes for bytes that are no UTF-8 and for what is not printable."""
    shown = "".join(c if c.isprintable() and c not in DIRECTION_MARKS else _escaped(c) for c in name[:NAME_SHOWN_MAX])
    return shown if len(name) <= NAME_SHOWN_MAX and len(shown) <= NAME_SHOWN_MAX else shown[: NAME_SHOWN_MAX - 1] + "…"


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte that was no UTF-8, as Python keeps it
    return character.encode("unicode_escape", "backslashreplace").decode()


def _reason_of(error: OSError) -> str:
    reasons = {
        errno.ELOOP: "it is a symbolic link, not a regular file",
        errno.EXDEV: "it lies on another file system",
        errno.EACCES: "it may not be read",
        errno.EPERM: "it may not be read",
        errno.ENOENT: "it is gone",
    }
    return reasons.get(error.errno or 0, f"it cannot be opened: {os.strerror(error.errno or 0)}")
