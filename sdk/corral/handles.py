"""A job and an artifact in hand: what `Client.submit` and `Client.job` give."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from corral.following import LogChunk
from corral.jobs import ArtifactView, AttemptView, EventView, JobView
from corral.ledger import LedgerEntryView
from corral.lines import split_lines

if TYPE_CHECKING:
    from corral.client import Client


class Artifact:
    """A file that a job left."""

    def __init__(self, client: "Client", job_id: str, view: ArtifactView) -> None:
        self._client = client
        self._job_id = job_id
        self.view = view

    def __repr__(self) -> str:
        return f"<Artifact {self.name!r} of {self._job_id}>"

    @property
    def name(self) -> str:
        """Its path below /out."""
        return self.view.name

    def download(self, directory: Path | str) -> Path:
        """Write it below `directory`, under its own name, once its SHA-256 proved right; return where.

        Raises:
            UnsafeDownload: its name leads outside of `directory`, or the bytes are not those recorded.
        """
        return self._client.download(self._job_id, self.view, Path(directory))


class Job:
    """A job; `view` is how it stood when it was last asked about."""

    def __init__(self, client: "Client", view: JobView) -> None:
        self._client = client
        self.view = view

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.view.state}>"

    @property
    def id(self) -> str:
        return self.view.id

    def refresh(self) -> JobView:
        """Ask how it stands now."""
        self.view = self._client.job_view(self.id)
        return self.view

    def wait(self, timeout: float | None = None) -> JobView:
        """Return once it is over.

        Raises:
            TimeoutError: it is not over after `timeout` seconds; it goes on.
        """
        self.view = self._client.wait(self.id, timeout)
        return self.view

    def logs(self, follow: bool = False) -> Iterator[bytes]:
        """What it wrote, byte for byte, in chunks.

        Without `follow`, the latest attempt's log so far. With it, every attempt's from the start, until the job is
        over, over connections that break.
        """
        if not follow:
            return self._client.log(self.id)
        return (event.data for event in self._client.follow(self.id) if isinstance(event, LogChunk))

    def log_lines(self, follow: bool = False) -> Iterator[str]:
        """The same as text, a line at a time, without the line's end; what is not UTF-8 is replaced."""
        return split_lines(self.logs(follow))

    @property
    def artifacts(self) -> list[Artifact]:
        """The files that it left; where several attempts left one of a name, the newest."""
        newest = {view.name: view for view in self._client.artifact_views(self.id)}
        return [Artifact(self._client, self.id, view) for view in newest.values()]

    def cancel(self) -> JobView:
        """End it, in whatever state it is."""
        self.view = self._client.cancel(self.id)
        return self.view

    def hold(self) -> JobView:
        """Keep it from starting."""
        self.view = self._client.hold(self.id)
        return self.view

    def release(self) -> JobView:
        """Let it start again."""
        self.view = self._client.release(self.id)
        return self.view

    def attempts(self) -> list[AttemptView]:
        """Every try at running it, newest first."""
        return list(self._client.attempts(self.id))

    def events(self) -> list[EventView]:
        """What happened to it, oldest first."""
        return list(self._client.events(self.id))

    def ledger(self) -> list[LedgerEntryView]:
        """Its lines in the ledger."""
        return list(self._client.job_ledger(self.id))
