"""Reads a plain tar stream, strictly forward: each thing it would rather not understand is refused.

Written by hand because the library's reader trusts the archive: it takes a header's word for how much to hold in
memory, and has looped without end on crafted ones.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO, Final

from sandbox.contract import SandboxFault

BLOCK: Final = 512
CHUNK: Final = 1 << 20
EXTENSION_BYTES_MAX: Final = 64 << 10
"""Most bytes of a long name or of a pax header, which are held in memory."""
PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
REFUSED: Final = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a FIFO",
    b"S": "a sparse file in GNU tar's own form",
}


class InputRefused(SandboxFault):
    """The input is not a tar stream that is unpacked here; the message says what to change."""

    code = "input_error"


class Kind(Enum):
    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class Member:
    """One file or directory of the archive, as it says of itself: nothing of it is checked but its size."""

    name: bytes
    kind: Kind
    size: int
    is_executable: bool


@dataclass(slots=True)
class _Extension:
    """What the headers before a member say of it."""

    name: bytes | None = None
    size: int | None = None
    headers: int = 0


class TarReader:
    """One pass over one stream. After each member of `members`, its content may be read with `content`."""

    def __init__(self, stream: BinaryIO, seconds_max: float) -> None:
        self._stream = stream
        self._deadline = time.monotonic() + seconds_max
        self._left = 0
        """Bytes of the present member's content that are still in the stream."""
        self._padding = 0

    def members(self) -> Iterator[Member]:
        """Every member in turn.

        Raises:
            InputRefused: the stream is no plain tar, is cut short, takes too long, or holds anything but files and
                directories.
        """
        extension = _Extension()
        first = True
        while (header := self._header(first)) is not None:
            first = False
            kind = header[156:157]
            size = extension.size if extension.size is not None and kind not in b"xgLK" else _number(header[124:136])
            self._left, self._padding = size, -size % BLOCK
            if kind in (b"x", b"L"):
                self._extend(extension, kind)
            elif kind in (b"g", b"K"):  # global remarks; the target of a link, which is refused when it comes
                self._extension_content()
            else:
                yield _member(header, kind, size, extension)
                extension = _Extension()
            self._skip_rest()
        if extension.headers:
            raise InputRefused("the tar ends in the middle of a member")

    def content(self) -> Iterator[bytes]:
        """The present member's content, in pieces of at most a mebibyte."""
        while self._left:
            yield self._take(min(self._left, CHUNK))

    def _header(self, first: bool) -> bytes | None:
        """The next header; None at the end of the archive."""
        header = self._read(BLOCK)
        if first:
            _refuse_other_forms(header)
        if len(header) < BLOCK:
            if not header and not first:
                return None  # the closing zeros are missing; every member was whole
            raise InputRefused("the tar is cut short")
        if not header.strip(b"\0"):
            return None
        stated = _number(header[148:156])
        if stated != sum(header) - sum(header[148:156]) + 8 * 0x20:
            raise InputRefused("it is not a tar, or it is damaged: a header's checksum is wrong")
        return header

    def _extend(self, extension: _Extension, kind: bytes) -> None:
        extension.headers += 1
        if extension.headers > 4:
            raise InputRefused("a member has too many extended headers")
        content = self._extension_content()
        if kind == b"L":
            extension.name = content.rstrip(b"\0")
            return
        for key, value in _pax_records(content):
            if key == b"path":
                extension.name = value
            elif key == b"size":
                extension.size = _decimal(value)
            elif key.startswith(b"GNU.sparse."):
                raise InputRefused(f"it holds {REFUSED[b'S']}; make the tar without --sparse")

    def _extension_content(self) -> bytes:
        if self._left > EXTENSION_BYTES_MAX:
            raise InputRefused(f"an extended header of {self._left} bytes; at most {EXTENSION_BYTES_MAX} are read")
        return b"".join(self.content())

    def _skip_rest(self) -> None:
        for _ in self.content():
            pass
        self._left, self._padding = self._padding, 0
        for _ in self.content():
            pass

    def _take(self, count: int) -> bytes:
        piece = self._read(count)
        if len(piece) < count:
            raise InputRefused("the tar is cut short")
        self._left -= count
        return piece

    def _read(self, count: int) -> bytes:
        """`count` bytes, or what is left of the stream."""
        pieces = []
        while count:
            if time.monotonic() > self._deadline:
                raise InputRefused("unpacking the input took too long")
            piece = self._stream.read(count)
            if not piece:
                break
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)


def _refuse_other_forms(start: bytes) -> None:
    for magic, name in PACKED.items():
        if start.startswith(magic):
            raise InputRefused(f"the input is a {name} file; send a plain, uncompressed tar")
    if not start:
        raise InputRefused("the input is empty; send a tar")


def _member(header: bytes, kind: bytes, size: int, extension: _Extension) -> Member:
    name = extension.name if extension.name is not None else _name(header)
    executable = bool(_number(header[100:108]) & 0o100)
    if kind == b"5":
        return Member(name, Kind.DIRECTORY, size, executable)
    if kind in (b"0", b"\0", b"7"):
        if name.endswith(b"/") and kind == b"\0":  # how tar wrote directories before 1988
            return Member(name, Kind.DIRECTORY, size, executable)
        return Member(name, Kind.FILE, size, executable)
    what = REFUSED.get(kind, f"a member of the unknown kind {kind!r}")
    raise InputRefused(f"it holds {what}; only regular files and directories are unpacked")


def _name(header: bytes) -> bytes:
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0" and (prefix := header[345:500].split(b"\0", 1)[0]):
        return prefix + b"/" + name
    return name


def _number(field: bytes) -> int:
    """A header's number: octal digits, or GNU's binary form for large ones."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    if field[0] & 0x80:
        raise InputRefused("a header holds a negative number")
    digits = field.strip(b"\0 ")
    try:
        return int(digits, 8) if digits.isdigit() else _nothing(digits)
    except ValueError:
        raise InputRefused("it is not a tar, or it is damaged: a header's number is wrong") from None


def _nothing(digits: bytes) -> int:
    if digits:
        raise InputRefused("it is not a tar, or it is damaged: a header's number is wrong")
    return 0


def _pax_records(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The `length key=value` lines of a pax header."""
    while content:
        length_text, space, _ = content.partition(b" ")
        length = _decimal(length_text)
        if not space or not len(length_text) + 3 <= length <= len(content) or content[length - 1 : length] != b"\n":
            raise InputRefused("an extended header is damaged")
        key, equals, value = content[len(length_text) + 1 : length - 1].partition(b"=")
        if not equals:
            raise InputRefused("an extended header is damaged")
        yield key, value
        content = content[length:]


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 19:
        raise InputRefused("an extended header is damaged")
    return int(text)
