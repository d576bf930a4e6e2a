"""Files that nobody but their owner may read: keys."""

import os
import tempfile
from pathlib import Path


def put_in_place(file: Path, content: bytes) -> None:
    """Whole or not at all, for its owner alone from the first instant, and there after a power cut."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")  # made with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
