"""Brings an attempt's inputs to the node: downloaded, checked against their hashes, unpacked."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from sandbox.unpack import UnpackLimits, unpack


def unpack_inputs(
    inputs: Sequence[str], into: Path, download: Callable[[str, Path], None], limits: UnpackLimits
) -> None:
    """Make the folder that the job sees at /in: an only input's files lie in it, several lie in `0`, `1`, … by order.

    Raises:
        InputRefused: an input is no tar that may be unpacked; the tenant's fault.
    """
    shutil.rmtree(into, ignore_errors=True)  # what an earlier try left half done
    if len(inputs) != 1:
        into.mkdir(mode=0o755)
    packed = into.with_suffix(".tar")
    for number, sha256 in enumerate(inputs):
        try:
            download(sha256, packed)
            with packed.open("rb") as stream:
                unpack(stream, into if len(inputs) == 1 else into / str(number), limits)
        finally:
            packed.unlink(missing_ok=True)
