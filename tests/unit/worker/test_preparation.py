"""Inputs on the node: one lies in /in itself, several each in a folder of its number."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.tar_reader import InputRefused
from sandbox.unpack import UnpackLimits
from worker.preparation import unpack_inputs


def a_tar(name: str, content: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.size, member.linkname = kind, len(content), "/etc/shadow"
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def from_shelf(tars: dict[str, bytes]) -> Callable[[str, Path], None]:
    def download(sha256: str, into: Path) -> None:
        into.write_bytes(tars[sha256])

    return download


def test_an_only_input_lies_in_the_folder_itself(tmp_path: Path) -> None:
    download = from_shelf({"a": a_tar("data.txt", b"1")})
    unpack_inputs(["a"], tmp_path / "in", download, UnpackLimits())
    assert (tmp_path / "in" / "data.txt").read_bytes() == b"1"
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_several_inputs_lie_apart(tmp_path: Path) -> None:
    download = from_shelf({"a": a_tar("x", b"1"), "b": a_tar("x", b"2")})
    unpack_inputs(["a", "b"], tmp_path / "in", download, UnpackLimits())
    assert (tmp_path / "in/0/x").read_bytes() == b"1"
    assert (tmp_path / "in/1/x").read_bytes() == b"2"


def test_what_a_crash_left_half_done_is_done_anew(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/half").write_bytes(b"?")
    unpack_inputs(["a"], tmp_path / "in", from_shelf({"a": a_tar("x", b"1")}), UnpackLimits())
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["x"]


def test_a_hostile_input_is_refused(tmp_path: Path) -> None:
    download = from_shelf({"a": a_tar("x", b"", tarfile.SYMTYPE)})
    with pytest.raises(InputRefused):
        unpack_inputs(["a"], tmp_path / "in", download, UnpackLimits())
    assert not (tmp_path / "in.tar").exists()
