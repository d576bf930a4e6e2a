"""A cheap look at an uploaded tar: its headers only, so that a node is not sent what it would refuse.

The node's own reader trusts none of this, and looks again while it unpacks.
"""

from collections.abc import Iterator
from typing import BinaryIO

from domain.errors import Invalid

BLOCK = 512
EXTENSION_BYTES_MAX = 64 * 1024
"""Most bytes of a long name or a pax header; these are held in memory."""
EXTENSIONS_MAX = 4
"""Most of these before one member."""
PAX_RECORDS_MAX = 256
"""Most `key=value` lines of one of them: a file has few, and a gigabyte of the shortest would take minutes to read."""
PART_BYTES_MAX = 255
"""Longest name of a file or directory that file systems take."""
FILES = (b"0", b"\0", b"7")
DIRECTORY = b"5"
REFUSED = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a FIFO",
    b"S": "a sparse file",
}
HELP = "make a plain tar of files and directories, such as `tar --format=pax -cf input.tar DIR` does"


def check_tar(stream: BinaryIO, size_bytes: int, members_max: int) -> None:
    """Refuse whatever is no plain tar of files and directories with relative names.

    Raises:
        Invalid: compressed, damaged, cut short; links, devices or FIFOs; names that are absolute or hold `..`; more
            members than are taken.
    """
    members = extensions = 0
    name: bytes | None = None
    size: int | None = None
    for header, position in _headers(stream, size_bytes):
        kind = header[156:157]
        if kind in (b"x", b"g", b"L", b"K"):
            extensions += 1
            content = _extension(stream, _number(header[124:136]), extensions, position, size_bytes)
            if kind == b"L":
                name = content.rstrip(b"\0")
            elif kind == b"x":
                pax = dict(_pax_records(content))
                name = pax.get(b"path", name)
                size = _decimal(pax[b"size"]) if b"size" in pax else size
            continue
        if kind not in (*FILES, DIRECTORY):
            raise _refusal(f"it holds {REFUSED.get(kind, 'a member of an unknown kind')}")
        members += 1
        if members > members_max:
            raise _refusal(f"it holds more than {members_max} members")
        _check_name(_name(header) if name is None else name)
        _skip(stream, _number(header[124:136]) if size is None else size, position, size_bytes)
        name, size, extensions = None, None, 0
    if not stream.tell():
        raise _refusal("it is empty")
    if extensions:
        raise _refusal("it ends in the middle of a member")


def _headers(stream: BinaryIO, size_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Each header up to the closing zeros or the end, and the position after it."""
    while stream.tell() < size_bytes:
        header = stream.read(BLOCK)
        if len(header) < BLOCK:
            raise _refusal("it is not a tar, or cut short")
        if not header.strip(b"\0"):
            return
        if _number(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * 0x20:
            raise _refusal("it is not a plain tar, or it is damaged")
        yield header, stream.tell()


def _extension(stream: BinaryIO, size: int, count: int, position: int, size_bytes: int) -> bytes:
    if size > EXTENSION_BYTES_MAX or count > EXTENSIONS_MAX:
        raise _refusal("a member has too many or too large extended headers")
    content = stream.read(size)
    _skip(stream, size, position, size_bytes)
    return content


def _skip(stream: BinaryIO, size: int, position: int, size_bytes: int) -> None:
    end = position + size + -size % BLOCK
    if position + size > size_bytes:
        raise _refusal("it is cut short")
    stream.seek(min(end, size_bytes))


def _name(header: bytes) -> bytes:
    name = header[:100].split(b"\0", 1)[0]
    prefix = header[345:500].split(b"\0", 1)[0] if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _check_name(name: bytes) -> None:
    parts = name.split(b"/")
    if name.startswith(b"/") or b".." in parts or b"\0" in name or not name.strip(b"/"):
        raise _refusal("a name in it is empty, absolute or holds '..'")
    if any(len(part) > PART_BYTES_MAX for part in parts):
        raise _refusal(f"a name in it has a part of more than {PART_BYTES_MAX} bytes")


def _number(field: bytes) -> int:
    """A header's number: octal digits, or GNU's binary form for large ones."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b"\0 ")
    if any(digit not in b"01234567" for digit in digits):
        raise _refusal("it is not a plain tar, or it is damaged")
    return int(digits, 8) if digits else 0


def _pax_records(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The `length key=value` lines of a pax header."""
    begin = 0
    for _ in range(PAX_RECORDS_MAX):
        if begin == len(content):
            return
        space = content.find(b" ", begin, begin + 20)
        length = _decimal(content[begin : max(space, begin)])
        end = begin + length
        key, equals, value = content[space + 1 : max(end - 1, space + 1)].partition(b"=")
        if not equals or end > len(content) or key.startswith(b"GNU.sparse."):
            raise _refusal("an extended header is damaged, or tells of a sparse file")
        yield key, value
        begin = end
    if begin != len(content):
        raise _refusal("a member has too many extended headers")


def _decimal(digits: bytes) -> int:
    if not 0 < len(digits) <= 18 or not digits.isdigit():
        raise _refusal("an extended header is damaged")
    return int(digits)


def _refusal(why: str) -> Invalid:
    return Invalid(f"the input is refused: {why}", HELP)
