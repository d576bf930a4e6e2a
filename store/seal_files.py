"""Copies of the seals outside of the database, where fsspec says: a rewritten database disagrees with them."""

import json
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import fsspec

_NAME = re.compile(r"seal-([0-9]{6,9})\.jsonl")


class SealFiles:
    """A folder of files, one for each seal. A file is written once."""

    def __init__(self, url: str) -> None:
        self._fs, root = fsspec.core.url_to_fs(url)
        self._root = root.rstrip("/")
        self._fs.makedirs(self._root, exist_ok=True)

    def write(self, number: int, lines: Iterable[bytes]) -> None:
        """Keep a seal's copy, whole or not at all. One that is there already stays as it is."""
        place = self._place(number)
        if self._fs.exists(place):
            return
        temporary = f"{self._root}/.{secrets.token_hex(8)}"
        with self._fs.open(temporary, "wb") as stream:
            for line in lines:
                stream.write(line)
        self._fs.mv(temporary, place)

    def numbers(self) -> frozenset[int]:
        """Of which seals there are copies."""
        names = (entry.rsplit("/", 1)[-1] for entry in self._fs.ls(self._root, detail=False, refresh=True))
        return frozenset(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def lines(self, number: int) -> Iterator[Any]:
        """The lines of a copy, read as JSON.

        Raises:
            ValueError: a line is none.
        """
        with self._fs.open(self._place(number), "rb") as stream:
            for line in stream:
                yield json.loads(line)

    def _place(self, number: int) -> str:
        return f"{self._root}/seal-{number:06d}.jsonl"
