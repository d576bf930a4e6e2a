"""Bytes in the store that fsspec names: a folder, or a bucket of S3. Everything here blocks: routes call it in threads.

What is written appears whole or not at all: in a folder it is written beside its place, and moved there; in a bucket an
object is there once its upload is complete.
"""

import errno
import hashlib
import io
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import fsspec
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from domain.errors import NotFound, StorageAway, TooLarge

CHUNK_BYTES = 256 * 1024
S3_OPTIONS: Final[Mapping[str, Any]] = {
    "use_listings_cache": False,  # other processes write there too
    "default_fill_cache": False,
    "skip_instance_cache": True,
    "config_kwargs": {"connect_timeout": 3, "read_timeout": 20, "retries": {"max_attempts": 2, "mode": "standard"}},
}
S3_TRIES: Final = 2
"""Of s3fs, around each of those; a client of ours waits meanwhile."""

log = logging.getLogger(__name__)


class Storage:
    """A tree of objects, named by relative paths."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        """`options` are fsspec's own for this kind of store. A bucket is asked nothing yet, and is never made."""
        self._is_bucket = url.startswith("s3://")
        own = S3_OPTIONS if self._is_bucket else {}
        self._fs, root = fsspec.core.url_to_fs(url, **{**own, **(options or {})})
        self._root = root.rstrip("/")
        if self._is_bucket:
            self._fs.retries = S3_TRIES
        else:
            self._fs.makedirs(f"{self._root}/incoming", exist_ok=True)

    def is_answering(self) -> bool:
        """Whether the folder or the bucket is there now."""
        try:
            with _there():
                return bool(self._fs.exists(self._root.partition("/")[0] if self._is_bucket else self._root))
        except StorageAway:
            return False

    def upload(self, bytes_max: int) -> "Upload":
        """A new object, of at most that many bytes; it has no name until it is kept."""
        return Upload(self, bytes_max)

    def put(self, name: str, data: bytes) -> None:
        """Store a small object. Not forced to the disk: a log is not worth the wait."""
        self.put_all(name, iter((data,)))

    def put_all(self, name: str, chunks: Iterator[bytes]) -> None:
        """Store an object of many pieces."""
        place = self.path(name) if self._is_bucket else self.temporary_path()
        with _there(), self._fs.open(place, "wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
        if not self._is_bucket:
            self.move(place, name)

    def read(self, name: str, begin: int, end: int) -> bytes:
        """The bytes from `begin` on and before `end`, as far as there are any.

        Raises:
            NotFound: there is no such object.
        """
        try:
            with _there():
                data: bytes = self._fs.cat_file(self.path(name), start=begin, end=end)
                return data
        except FileNotFoundError:
            raise NotFound("object") from None
        except _BeyondEnd:
            return b""

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
            with _there():
                entries: list[str] = self._fs.ls(self.path(folder), detail=False, refresh=True)
        except FileNotFoundError:
            return frozenset()
        return frozenset(entry.rsplit("/", 1)[-1] for entry in entries)

    def exists(self, name: str) -> bool:
        """Whether there is such an object."""
        with _there():
            return bool(self._fs.exists(self.path(name)))

    def remove(self, name: str) -> None:
        """Remove an object; one that is gone already stays gone."""
        try:
            with _there():
                self._fs.rm_file(self.path(name))
        except FileNotFoundError:
            return

    def move(self, temporary: str, name: str) -> None:
        """Give what was written its name, in the place of what had it."""
        target = self.path(name)
        with _there():
            if not self._is_bucket:
                self._fs.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
            self._fs.mv(temporary, target)

    def open_stream(self, temporary: str, mode: Literal["rb", "wb"]) -> Any:
        """A temporary object, to be written or to be looked at."""
        with _there():
            return self._fs.open(temporary, mode)

    def remove_temporary(self, temporary: str) -> None:
        """Remove what never got its name."""
        with _there():
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
        with _there():
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
        with _there():
            self._stream.write(chunk)

    def finish(self) -> Uploaded:
        """All has arrived: force it to the disk, where the store is one."""
        with _there():
            self._stream.flush()
            if (descriptor := _descriptor(self._stream)) is not None:
                os.fsync(descriptor)
            self._stream.close()
        return Uploaded(self._size, f"sha256:{self._digest.hexdigest()}")

    def reopened(self) -> Any:
        """What has arrived, to be looked at before it is kept; a context."""
        return self._storage.open_stream(self._temporary, "rb")

    def keep(self, name: str) -> None:
        """Give it its name."""
        self._storage.move(self._temporary, name)
        self._is_kept = True


class _BeyondEnd(Exception):
    """Nothing stands where a bucket was asked to read from."""


@contextmanager
def _there() -> Iterator[None]:
    """Let through that something is missing; whatever else a store fails with, it can be asked again later.

    Raises:
        StorageAway: it does not do its work.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, BotoCoreError, ClientError) as error:
        if isinstance(error, OSError) and error.errno == errno.EINVAL and "range" in str(error).lower():
            raise _BeyondEnd from error
        log.error("the storage fails: %s: %s", type(error).__name__, error)
        raise StorageAway from error


def _descriptor(stream: Any) -> int | None:
    """Of a file on this machine; a bucket's has none."""
    try:
        return int(stream.fileno())
    except (AttributeError, io.UnsupportedOperation):
        return None
