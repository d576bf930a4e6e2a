"""An input is the same bytes for the same files, and nothing but files and directories."""

import io
import os
import tarfile

import pytest
from corral.errors import InputRefused
from corral.input_tar import pack


def packed(source):
    archive = io.BytesIO()
    pack(source, archive)
    return archive.getvalue()


def a_tree(root, order):
    root.mkdir()
    for name in order:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (root / "run.sh").chmod(0o700)
    return root


NAMES = ["run.sh", "data/b.txt", "data/a.txt", "ünï/" + "long" * 60, "z"]


def test_the_same_files_are_the_same_bytes_whenever_and_wherever(tmp_path):
    one, two = a_tree(tmp_path / "one", NAMES), a_tree(tmp_path / "two", reversed(NAMES))
    os.utime(two / "z", (1, 1))
    (two / "z").chmod(0o640)
    assert packed(one) == packed(two)


def test_names_are_sorted_and_owners_and_times_are_gone(tmp_path):
    with tarfile.open(fileobj=io.BytesIO(packed(a_tree(tmp_path / "one", NAMES)))) as tar:
        members = tar.getmembers()
    names = [member.name for member in members]
    assert names == ["data", "data/a.txt", "data/b.txt", "run.sh", "z", "ünï", "ünï/" + "long" * 60]
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 0)}
    assert {m.name: m.mode for m in members if m.name in ("run.sh", "z", "data")} == {
        "run.sh": 0o755, "z": 0o644, "data": 0o755
    }  # fmt: skip


def test_two_names_of_one_file_are_two_files(tmp_path):
    root = a_tree(tmp_path / "one", NAMES)
    (root / "same").hardlink_to(root / "z")
    with tarfile.open(fileobj=io.BytesIO(packed(root))) as tar:
        assert {tar.extractfile(name).read() for name in ("z", "same")} == {b"z"}


def test_one_file_is_an_input_too(tmp_path):
    (tmp_path / "only").write_bytes(b"x")
    with tarfile.open(fileobj=io.BytesIO(packed(tmp_path / "only"))) as tar:
        assert tar.getnames() == ["only"]


def test_a_link_is_refused_by_name(tmp_path):
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(InputRefused, match="'link' is a symbolic link"):
        packed(tmp_path)


def test_a_link_to_a_directory_is_refused_too(tmp_path):
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(InputRefused, match="symbolic link"):
        packed(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputRefused, match="neither a file nor a directory"):
        packed(tmp_path)


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    with pytest.raises(InputRefused, match="not UTF-8"):
        packed(tmp_path)


def test_a_missing_directory_is_refused(tmp_path):
    with pytest.raises(InputRefused, match="cannot be packed"):
        packed(tmp_path / "none")
