"""Hostile archives: nothing lands outside its place, and time and disk are bounded."""

import gzip
import io
import os
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import services

from sandbox.tar_reader import InputRefused
from sandbox.unpack import Unpacked, UnpackLimits, unpack

LIMITS = UnpackLimits()


def an_archive(*entries: tuple[str, bytes | None], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of files, and of folders where the content is None."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if content is None:
                entry.type = tarfile.DIRTYPE
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def an_entry(kind: bytes, name: str = "x", link: str = "", size: int = 0) -> bytes:
    """One header of any kind, and the end."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, link, size
    return entry.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


def unpacked(archive: bytes, tmp_path: Path, limits: UnpackLimits = LIMITS) -> Unpacked:
    return unpack(io.BytesIO(archive), tmp_path / "in", limits)


def everything(tmp_path: Path) -> set[str]:
    return {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_files_and_folders_are_unpacked_from_every_form(tmp_path: Path, form: int) -> None:
    archive = an_archive(
        ("data", None), ("data/a.txt", b"one"), ("./b/c.txt", b"two" * 1000), ("empty", b""), form=form
    )
    assert unpacked(archive, tmp_path) == Unpacked(files=3, directories=2, total_bytes=3003)
    assert (tmp_path / "in/data/a.txt").read_bytes() == b"one"
    assert (tmp_path / "in/b/c.txt").read_bytes() == b"two" * 1000


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_and_foreign_names_are_kept(tmp_path: Path, form: int) -> None:
    name = "/".join(["größe" * 20] * 4)
    unpacked(an_archive((name, b"x"), form=form), tmp_path)
    assert (tmp_path / "in" / name).read_bytes() == b"x"


def test_the_tar_program_s_own_archives_are_read(tmp_path: Path) -> None:
    tar = services.need_program("tar")
    (tmp_path / "source/folder").mkdir(parents=True)
    (tmp_path / "source/folder/file").write_bytes(b"x" * 100_000)
    os.system(f"cd {tmp_path}/source && {tar} cf ../made.tar .")
    assert unpacked((tmp_path / "made.tar").read_bytes(), tmp_path).files == 1
    assert (tmp_path / "in/folder/file").stat().st_size == 100_000


def test_modes_are_ours(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, mode in (("plain", 0o6666), ("program", 0o7711), ("hidden", 0o000)):
            entry = tarfile.TarInfo(name)
            entry.mode = mode
            tar.addfile(entry)
    unpacked(stream.getvalue(), tmp_path)
    found = {path.name: path.stat().st_mode & 0o7777 for path in (tmp_path / "in").iterdir()}
    assert found == {"plain": 0o644, "program": 0o755, "hidden": 0o644}
    assert (tmp_path / "in").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    "name",
    ["../outside", "a/../../outside", "/outside", "//outside", "a/..", "..", "a/../b"],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputRefused):
        unpacked(an_archive((name, b"x")), tmp_path)
    assert everything(tmp_path) <= {"in", "in/a"}


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "FIFO"),
        (tarfile.GNUTYPE_SPARSE, "sparse"),
        (b"Z", "unknown kind"),
        (b"\xff", "unknown kind"),
    ],
)
def test_anything_but_files_and_folders_is_refused(tmp_path: Path, kind: bytes, what: str) -> None:
    with pytest.raises(InputRefused, match=what):
        unpacked(an_entry(kind, link="/etc/shadow"), tmp_path)
    assert everything(tmp_path) == {"in"}


def test_a_link_cannot_be_written_through(tmp_path: Path) -> None:
    archive = an_entry(tarfile.SYMTYPE, "door", str(tmp_path))[:512] + an_archive(("door/outside", b"x"))
    with pytest.raises(InputRefused, match="symbolic link"):
        unpacked(archive, tmp_path)
    assert everything(tmp_path) == {"in"}


@pytest.mark.parametrize(
    "entries", [(("a", b"1"), ("a", b"2")), (("a", b"1"), ("a/b", b"2")), (("a/b", b"1"), ("a", b"2"))]
)
def test_one_name_for_two_things_is_refused(tmp_path: Path, entries: tuple[tuple[str, bytes], ...]) -> None:
    with pytest.raises(InputRefused):
        unpacked(an_archive(*entries), tmp_path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "empty"),
        (gzip.compress(b"x" * 1000, mtime=0), "gzip"),
        (b"BZh91AY&SY" + bytes(600), "bzip2"),
        (b"\xfd7zXZ\x00" + bytes(600), "xz"),
        (b"\x28\xb5\x2f\xfd" + bytes(600), "zstd"),
        (b"PK\x03\x04" + bytes(600), "zip"),
        (b"just text", "cut short"),
        (b"just text" * 100, "not a tar"),
        (bytes(range(1, 256)) * 20, "negative number"),
        (an_archive(("a", b"x" * 5000))[:2000], "cut short"),
        (an_archive(("a", b"x"))[:300], "cut short"),
        (an_entry(tarfile.REGTYPE, size=1 << 40), "more than"),
        (an_entry(tarfile.REGTYPE, size=100)[:512], "cut short"),
    ],
)
def test_what_is_no_whole_plain_tar_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    with pytest.raises(InputRefused, match=complaint):
        unpacked(content, tmp_path)


def test_an_archive_of_nothing_is_an_empty_input(tmp_path: Path) -> None:
    assert unpacked(bytes(10240), tmp_path) == Unpacked(0, 0, 0)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_a_huge_extended_header_is_not_held_in_memory(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(InputRefused, match="extended header"):
        unpacked(an_entry(kind, size=4 << 30), tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"9 path=\n",
        b"999 path=x\n",
        b"-5 path=x\n",
        b"0 path=x\n",
        b"11 path=abc",
        b"x path=y\n",
        b"5 xy\n",
        b"15 size=99999x\n",
        b"27 size=9999999999999999999\n",
        b"18 GNU.sparse.x=1\n",
    ],
)
def test_a_damaged_extended_header_is_refused(tmp_path: Path, content: bytes) -> None:
    header = an_entry(b"x", size=len(content))[:512]
    with pytest.raises(InputRefused):
        unpacked(header + content.ljust(512, b"\0") + an_archive(("a", b"x")), tmp_path)


def test_extended_headers_without_end_are_refused(tmp_path: Path) -> None:
    content = b"10 path=a\n"
    extended = an_entry(b"x", size=len(content))[:512] + content.ljust(512, b"\0")
    with pytest.raises(InputRefused, match="too many"):
        unpacked(extended * 10_000, tmp_path)


def test_a_negative_size_is_refused(tmp_path: Path) -> None:
    header = bytearray(an_entry(tarfile.REGTYPE)[:512])
    header[124:136] = b"\xff" * 12
    header[148:156] = b"%06o\0 " % (sum(header) - sum(header[148:156]) + 256)
    with pytest.raises(InputRefused, match="negative"):
        unpacked(bytes(header) + bytes(1024), tmp_path)


@pytest.mark.parametrize(
    ("limits", "archive", "complaint"),
    [
        (replace(LIMITS, members_max=3), an_archive(*((str(i), b"") for i in range(4))), "3 members"),
        (replace(LIMITS, total_bytes_max=99), an_archive(("a", b"x" * 50), ("b", b"x" * 50)), "99 bytes"),
        (replace(LIMITS, depth_max=3), an_archive(("a/b/c/d", b"")), "deeper than 3"),
        (replace(LIMITS, name_bytes_max=10), an_archive(("a" * 11, b"")), "11 bytes"),
        (LIMITS, an_archive(("n" * 256, b"")), "longer than 255"),
        (replace(LIMITS, members_max=8), an_archive(*((f"{i}/a/b/c", b"") for i in range(4))), "8 directories"),
        (replace(LIMITS, seconds_max=0.0), an_archive(("a", b"")), "too long"),
    ],
)
def test_each_cap_is_kept(tmp_path: Path, limits: UnpackLimits, archive: bytes, complaint: str) -> None:
    with pytest.raises(InputRefused, match=complaint):
        unpacked(archive, tmp_path, limits)


def test_many_small_members_are_read_in_good_time(tmp_path: Path) -> None:
    archive = an_archive(*((f"f{i}", b"x") for i in range(5000)))
    started = time.monotonic()
    assert unpacked(archive, tmp_path).files == 5000
    assert time.monotonic() - started < 10


def test_a_folder_that_is_there_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(FileExistsError):
        unpacked(an_archive(("a", b"x")), tmp_path)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    unpacked(an_archive(("a/b/c", b"x"), ("d", None)), tmp_path)
    with pytest.raises(InputRefused):
        unpack(io.BytesIO(an_archive(("a/b", b"x"), ("a", b"x"))), tmp_path / "other", LIMITS)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
