"""Tar streams, good and bad."""

import io
import tarfile
from collections.abc import Mapping


def tar_of(files: Mapping[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of regular files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def tar_with(kind: bytes, name: str = "x", target: str = "") -> bytes:
    """A tar of one member of that kind."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.type = kind
        member.linkname = target
        tar.addfile(member)
    return stream.getvalue()


def tar_with_pax(records: bytes) -> bytes:
    """A tar of one file, before which an extended header stands that holds these bytes."""
    header = tarfile.TarInfo("PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, len(records)
    return header.tobuf(tarfile.USTAR_FORMAT) + records + b"\0" * (-len(records) % 512) + tar_of({"x": b""})
