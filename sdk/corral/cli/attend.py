"""Stays with a job until it is over: why it waits, what it writes, how it ended."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from corral.cli.output import console, note
from corral.cli.text import plain
from corral.client import Client
from corral.following import LogChunk, StateChange
from corral.jobs import JobView, WaitReason
from rich.status import Status
from rich.text import Text

NO_EXIT_CODE = 125
"""The job failed without an exit code of its own."""
CANCELLED = 130


class Waiting:
    """The reason why a job waits: a spinner on a terminal, else a line for each new reason."""

    def __init__(self) -> None:
        self._console = console(is_error=True)
        self._status: Status | None = None
        self._said = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def say(self, text: str) -> None:
        """Show `text` until something else is said or the waiting stops."""
        if not self._console.is_terminal:
            if text != self._said:
                note(text)
        elif self._status is None:
            self._status = self._console.status(Text(plain(text)))
            self._status.start()
        else:
            self._status.update(Text(plain(text)))
        self._said = text

    def begin(self, text: str) -> None:
        """Show `text` unless something better is shown already: the reason may come before the state."""
        if not self._said:
            self.say(text)

    def stop(self) -> None:
        """Leave the terminal to the job."""
        self._said = ""
        if self._status is not None:
            self._status.stop()
            self._status = None


def attend(client: Client, job_id: str, write: Callable[[bytes], None]) -> JobView:
    """Return how it ended; until then, say why it waits and pass on what it writes, byte for byte."""
    with Waiting() as waiting:
        for event in client.follow(job_id):
            if isinstance(event, LogChunk):
                waiting.stop()
                write(event.data)
            elif isinstance(event, WaitReason):
                waiting.say(f"waiting: {event.text}")
            elif isinstance(event, StateChange) and event.state in ("queued", "held"):
                waiting.begin(event.state)
            elif isinstance(event, StateChange):
                waiting.stop()
    return client.job_view(job_id)


def exit_code_of(view: JobView) -> int:
    """What a shell should see of a job that is over: its own exit code, wherever it has one."""
    if view.state == "succeeded":
        return view.exit_code or 0
    if view.state == "cancelled":
        return CANCELLED
    return view.exit_code or NO_EXIT_CODE


def ending_text(view: JobView) -> str:
    """What the exit code alone does not say; nothing for a job that just exited."""
    if view.state == "cancelled":
        return f"{view.id} was cancelled"
    if view.state != "failed" or (view.outcome == "exited" and view.exit_code):
        return ""
    return ": ".join(part for part in (f"{view.id} failed", view.outcome, view.error) if part)
