"""Blacks secrets out of what a job writes: as they are, and as base64, hexadecimal, URLs and JSON write them.

Base64 is known at each of its three alignments, in both alphabets and across the ends of lines, by the characters that
the secret alone decides. What a job disguises in other ways, or prints in parts, is not known again.
"""

import json
import os
from binascii import b2a_base64
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping

LEAST_BYTES = 6
"""A shorter value is found in ordinary output by chance, so it is left alone; the API takes none."""
HEAD = 8
SLACK_BYTES = 1024
"""Ends of lines that a stretch of base64 may hold beside its own characters."""
LINE_ENDS = b"\r\n"
UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")

Form = tuple[bytes, bytes]
"""What is found, and the mark in its place."""
Span = tuple[int, int, bytes]


class Forms:
    """Every way in which these secrets may show."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        plain: dict[bytes, str] = {}
        folded: dict[bytes, str] = {}
        for name, value in secrets.items():
            for core in {value, value.strip()}:
                if len(core) >= LEAST_BYTES:
                    plain.update(dict.fromkeys(_plain_forms(core), name))
                    folded.update(dict.fromkeys(_base64_forms(core), name))
        known = [*plain, *folded]
        marks = {name: _mark(name, known) for name in secrets}
        self._plain = [(form, marks[name]) for form, name in plain.items()]
        self._folded = [(form, marks[name]) for form, name in folded.items()]
        self.hold_max = max(map(len, known), default=0) + SLACK_BYTES

    def clean(self, text: str) -> str:
        """The text, blacked out."""
        stream = Redactor(self)
        data = text.encode("utf-8", "surrogatepass")
        return (stream.feed(data) + stream.flush()).decode("utf-8", "surrogatepass")

    def spans(self, data: bytes) -> list[Span]:
        """Where they are in `data`, in order."""
        if not self._plain:
            return []
        found = list(_occurrences(data, self._plain))
        folded = _Folded(data)
        for start, end, mark in _occurrences(folded.data, self._folded):
            found.append((folded.place(start), folded.place(end - 1) + 1, mark))
        return sorted(found)

    def pending(self, data: bytes) -> int:
        """From where on `data` may be the beginning of one; its length if it ends in no beginning."""
        if not self._plain:
            return len(data)
        folded = _Folded(data)
        beginning = _beginning(folded.data, self._folded)
        held = folded.place(beginning) if beginning < len(folded.data) else len(data)
        return max(min(held, _beginning(data, self._plain)), len(data) - self.hold_max)


class Redactor:
    """A stream, blacked out. What may be the beginning of a secret is held back until more comes."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._held = b""
        self._done = 0
        """So many bytes of what is held are blacked out already."""

    def feed(self, data: bytes) -> bytes:
        """What of the stream can be shown now."""
        held = self._held + data
        return self._shown(held, self._forms.pending(held))

    def flush(self) -> bytes:
        """The rest: nothing more comes."""
        return self._shown(self._held, len(self._held))

    def _shown(self, data: bytes, until: int) -> bytes:
        parts, at = [], self._done
        for start, end, mark in self._forms.spans(data):
            if start >= until:
                break
            if start >= at:
                parts += [data[at:start], mark]
            at = max(at, end)
        if at < until:
            parts.append(data[at:until])
            at = until
        self._held, self._done = data[until:], at - until
        return b"".join(parts)


def read_values(folder: int, names: Iterable[str]) -> dict[str, bytes]:
    """The values of the secrets in an open folder of files.

    Raises:
        OSError: one is not there.
    """
    values = {}
    for name in names:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with open(fd, "rb") as file:
            values[name] = file.read()
    return values


def _plain_forms(value: bytes) -> Iterator[bytes]:
    yield value
    yield value.hex().encode()
    yield value.hex().upper().encode()
    for safe in (b"", b"/", b"!'()*"):
        for digits in ("%%%02X", "%%%02x"):
            quoted = [chr(b) if b in UNRESERVED or b in safe else digits % b for b in value]
            yield "".join(quoted).encode()
            yield "".join(quoted).replace("%20", "+").encode()
    text = value.decode("utf-8", "surrogateescape")
    for is_ascii in (True, False):
        yield json.dumps(text, ensure_ascii=is_ascii)[1:-1].encode("utf-8", "surrogateescape")


def _base64_forms(value: bytes) -> Iterator[bytes]:
    """The characters that `value` alone decides, wherever in a longer text it stands."""
    for before in range(3):
        encoded = b2a_base64(bytes(before) + value, newline=False).rstrip(b"=")
        is_ragged = (before + len(value)) % 3 != 0
        form = encoded[(0, 2, 3)[before] : len(encoded) - is_ragged]
        yield form
        yield form.translate(bytes.maketrans(b"+/", b"-_"))


def _mark(name: str, forms: Collection[bytes]) -> bytes:
    """What stands in a secret's place: a text that holds no form, and makes none with what stands beside it."""
    for mark in (f"[redacted:{name}]", f"<redacted:{name}>", "[redacted]", "***", "___"):
        if not any(_may_join(mark.encode(), form) for form in forms):
            return mark.encode()
    return b"*"


def _may_join(mark: bytes, form: bytes) -> bool:
    ends = range(1, min(len(mark), len(form)) + 1)
    return form in mark or any(form.startswith(mark[-n:]) or form.endswith(mark[:n]) for n in ends)


class _Folded:
    """Data without its ends of lines, in which a byte's place in the whole can be found again."""

    def __init__(self, data: bytes) -> None:
        self._whole = data
        self.data = data.translate(None, LINE_ENDS)
        self._ends: list[int] | None = None

    def place(self, folded: int) -> int:
        """Where in the whole a byte stands. Most data is asked for none, so the ends are looked for late."""
        if self._ends is None:
            ends = (place for place, byte in enumerate(self._whole) if byte in LINE_ENDS)
            self._ends = [place - count for count, place in enumerate(ends)]
        return folded + bisect_right(self._ends, folded)


def _occurrences(data: bytes, forms: Iterable[Form]) -> Iterator[Span]:
    for form, mark in forms:
        start = data.find(form)
        while start >= 0:
            yield start, start + len(form), mark
            start = data.find(form, start + len(form))


def _beginning(data: bytes, forms: Iterable[Form]) -> int:
    """The first place from which on all of `data` is the beginning of a form; its length if there is none."""
    return min((_beginning_of(data, form) for form, _ in forms), default=len(data))


def _beginning_of(data: bytes, form: bytes) -> int:
    head = form[:HEAD]
    place = data.find(head, max(0, len(data) - len(form) + 1))
    while place >= 0:
        if form.startswith(data[place:]):
            return place
        place = data.find(head, place + 1)
    rest = range(max(0, len(data) - len(head) + 1), len(data))
    return next((place for place in rest if head.startswith(data[place:])), len(data))
