"""Bytes in the store that fsspec names. Everything here blocks: routes that stream call it in threads.

What is written appears whole or not at all: it is written beside its place, and moved there.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import fsspec

from domain.errors import NotFound, TooLarge

CHUNK_BYTES = 256 * 1024


class Storage:
    """A tree of objects, named by relative paths."""

    def __init__(self, url: str) -> None:
        self._fs, root = fsspec.core.url_to_fs(url)
        self._root = root.rstrip("/")
        self._fs.makedirs(f"{self._root}/incoming", exist_ok=True)

    def upload(self, bytes_max: int) -> "Upload":
        """A new object, of at most that many bytes; it has no name until it is kept."""
        return Upload(self, bytes_max)

    def put(self, name: str, data: bytes) -> None:
        """Store a small object. Not forced to the disk: a log is not worth the wait."""
        temporary = self.temporary_path()
        with self._fs.open(temporary, "wb") as stream:
            stream.write(data)
        self.move(temporary, name)

    def put_all(self, name: str, chunks: Iterator[bytes]) -> None:
        """Store an object of many pieces."""
        temporary = self.temporary_path()
        with self._fs.open(temporary, "wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
        self.move(temporary, name)

    def read(self, name: str, begin: int, end: int) -> bytes:
        """The bytes from `begin` on and before `end`, as far as there are any.

        Raises:
            NotFound: there is no such object.
        """
        try:
            with self._fs.open(self.path(name), "rb") as stream:
                stream.seek(begin)
                data: bytes = stream.read(end - begin)
                return data
        except FileNotFoundError:
            raise NotFound("object") from None

    def chunks(self, name: str, begin: int, end: int) -> Iterator[bytes]:
        """The same, a piece at a time."""
        while begin < end and (data := self.read(name, begin, min(end, begin + CHUNK_BYTES))):
            yield data
            begin += len(data)

    def names(self, folder: str) -> frozenset[str]:
        """The last names of the objects right below `folder`; none if there is no such folder.

        Names alone: asking for more would fail on an object that goes away meanwhile.
        """
        try:
            entries: list[str] = self._fs.ls(self.path(folder), detail=False, refresh=True)
        except FileNotFoundError:
            return frozenset()
        return frozenset(entry.rsplit("/", 1)[-1] for entry in entries)

    def exists(self, name: str) -> bool:
        """Whether there is such an object."""
        return bool(self._fs.exists(self.path(name)))

    def remove(self, name: str) -> None:
        """Remove an object; one that is gone already stays gone."""
        try:
            self._fs.rm_file(self.path(name))
        except FileNotFoundError:
            return

    def move(self, temporary: str, name: str) -> None:
        """Give what was written its name, in the place of what had it."""
        target = self.path(name)
        self._fs.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        self._fs.mv(temporary, target)

    def open_stream(self, temporary: str, mode: Literal["rb", "wb"]) -> Any:
        """A temporary object, to be written or to be looked at."""
        return self._fs.open(temporary, mode)

    def remove_temporary(self, temporary: str) -> None:
        """Remove what never got its name."""
        if self._fs.exists(temporary):
            self._fs.rm_file(temporary)

    def temporary_path(self) -> str:
        """A name that nobody else has."""
        return f"{self._root}/incoming/{secrets.token_hex(16)}"

    def path(self, name: str) -> str:
        """Where an object lies. Names are made of ids and hashes only, never of what a tenant wrote."""
        return f"{self._root}/{name}"


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What arrived."""

    size_bytes: int
    sha256: str
    """`sha256:` and the hex digits."""


class Upload:
    """An object that arrives in pieces. Whoever began it closes it, which removes what was not kept."""

    def __init__(self, storage: Storage, bytes_max: int) -> None:
        self._storage = storage
        self._bytes_max = bytes_max
        self._temporary = storage.temporary_path()
        self._stream = storage.open_stream(self._temporary, "wb")
        self._digest = hashlib.sha256()
        self._size = 0
        self._is_kept = False

    def close(self) -> None:
        """Nothing more is done with it."""
        self._stream.close()
        if not self._is_kept:
            self._storage.remove_temporary(self._temporary)

    def write(self, chunk: bytes) -> None:
        """Add a piece.

        Raises:
            TooLarge: it would be more than it may be.
        """
        self._size += len(chunk)
        if self._size > self._bytes_max:
            raise TooLarge(f"at most {self._bytes_max} bytes are taken")
        self._digest.update(chunk)
        self._stream.write(chunk)

    def finish(self) -> Uploaded:
        """All has arrived: force it to the disk, where the store is one."""
        self._stream.flush()
        descriptor: Callable[[], int] | None = getattr(self._stream, "fileno", None)
        if descriptor is not None:
            os.fsync(descriptor())
        self._stream.close()
        return Uploaded(self._size, f"sha256:{self._digest.hexdigest()}")

    def reopened(self) -> Any:
        """What has arrived, to be looked at before it is kept; a context."""
        return self._storage.open_stream(self._temporary, "rb")

    def keep(self, name: str) -> None:
        """Give it its name."""
        self._storage.move(self._temporary, name)
        self._is_kept = True
