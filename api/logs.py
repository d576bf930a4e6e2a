"""Logs, as append-only segments in storage: any API process takes any piece, and serves any log.

A segment is named by the offsets at which it begins and ends. Small ones are joined as they become many; a joined one
has a name of its own and appears before the ones that it covers go, so that readers and writers never miss a byte.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from api.storage import CHUNK_BYTES, Storage
from domain.errors import LogGap, NotFound, TooLarge

SMALL_BYTES = 2**20
"""A smaller segment waits to be joined with others."""
SMALL_MAX = 64
"""So many of them are joined."""


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """A stretch of a log."""

    begin: int
    end: int

    @property
    def name(self) -> str:
        """Its last name in storage."""
        return f"{self.begin:016x}-{self.end:016x}"


class Logs:
    """The logs of all attempts. Everything here blocks."""

    def __init__(self, storage: Storage, bytes_max: int) -> None:
        self._storage = storage
        self._bytes_max = bytes_max

    def size(self, attempt_id: str) -> int:
        """How many bytes are held."""
        return max((segment.end for segment in self._segments(attempt_id)), default=0)

    def append(self, attempt_id: str, offset: int, data: bytes) -> int:
        """Add what is new of `data`, which begins at `offset`; how much is held then.

        Raises:
            LogGap: it begins beyond what is held.
            TooLarge: the log would be larger than any may be.
        """
        segments = self._segments(attempt_id)
        held = max((segment.end for segment in segments), default=0)
        if offset > held:
            raise LogGap(held)
        fresh = data[held - offset :]
        if not fresh:
            return held
        if held + len(fresh) > self._bytes_max:
            raise TooLarge(f"a log is at most {self._bytes_max} bytes")
        added = Segment(held, held + len(fresh))
        self._storage.put(_place(attempt_id, added), fresh)
        self._join_small(attempt_id, [*segments, added])
        return added.end

    def read(self, attempt_id: str, begin: int, end: int) -> bytes:
        """What is held from `begin` on and before `end`; at most a piece of it."""
        end = min(end, begin + CHUNK_BYTES)
        while True:
            covering = [segment for segment in self._segments(attempt_id) if segment.begin <= begin < segment.end]
            if not covering:
                return b""
            segment = max(covering, key=lambda each: each.end)
            try:
                return self._storage.read(
                    _place(attempt_id, segment), begin - segment.begin, min(end, segment.end) - segment.begin
                )
            except NotFound:
                continue  # it was joined with others since the look; the joined one is there

    def chunks(self, attempt_id: str, begin: int, end: int) -> Iterator[bytes]:
        """What is held from `begin` on and before `end`, a piece at a time."""
        while begin < end and (data := self.read(attempt_id, begin, end)):
            yield data
            begin += len(data)

    def compact(self, attempt_id: str) -> None:
        """Join all segments of a log that grows no more."""
        self._join(attempt_id, self._segments(attempt_id))

    def _join_small(self, attempt_id: str, segments: Sequence[Segment]) -> None:
        """Join the latest segments, up to the last large one, once they are many."""
        small: list[Segment] = []
        for segment in sorted(segments, reverse=True):
            if segment.end - segment.begin >= SMALL_BYTES:
                break
            small.append(segment)
        if len(small) >= SMALL_MAX:
            self._join(attempt_id, small)

    def _join(self, attempt_id: str, segments: Sequence[Segment]) -> None:
        if len(segments) < 2:
            return
        joined = Segment(min(segments).begin, max(segment.end for segment in segments))
        self._storage.put_all(_place(attempt_id, joined), self.chunks(attempt_id, joined.begin, joined.end))
        for segment in segments:
            if segment != joined:
                self._storage.remove(_place(attempt_id, segment))

    def _segments(self, attempt_id: str) -> list[Segment]:
        """What is there. Listed twice: a listing that runs while segments are joined can miss the old and the new.

        The joined one is there before the first old one goes, so what the first look missed the second one finds.
        """
        folder = _folder(attempt_id)
        names = self._storage.names(folder) | self._storage.names(folder)
        return [Segment(*(int(part, 16) for part in name.split("-"))) for name in names]


def _folder(attempt_id: str) -> str:
    return f"logs/{attempt_id}"


def _place(attempt_id: str, segment: Segment) -> str:
    return f"{_folder(attempt_id)}/{segment.name}"
