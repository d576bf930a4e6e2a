"""What goes wrong beside the job: told in the runner's own file, which lies on the same disk as all it has."""

import contextlib
import os


def complain(text: str) -> None:
    """Write a line to standard error; where even that cannot be written, nothing comes of it, least of all an end."""
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode(errors="replace"))
