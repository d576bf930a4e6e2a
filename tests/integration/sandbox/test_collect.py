"""Hostile output: whatever a job leaves, only its own regular files come back, and each refusal is listed."""

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox import beneath
from sandbox.collect import CollectLimits, Collector, printable

LIMITS = CollectLimits()


@pytest.fixture(params=["openat2", "by hand"])
def _opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to open: the kernel's own, and the one for a kernel that lacks it."""
    if request.param == "by hand":
        monkeypatch.setattr(beneath, "OPENAT2", 10_000)  # no such call: the kernel says ENOSYS


@pytest.fixture
def out(tmp_path: Path) -> Path:
    place = tmp_path / "out"
    place.mkdir()
    return place


def collect(out: Path, limits: CollectLimits = LIMITS) -> tuple[dict[str, bytes], dict[str, str]]:
    root = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        collector = Collector(root, limits)
        taken = {file.name: os.read(file.fd, file.size_bytes) for file in collector.files()}
    finally:
        os.close(root)
    return taken, {skipped.name: skipped.reason for skipped in collector.skipped}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.usefixtures("_opener")
def test_files_in_folders_come_back_with_their_content(out: Path) -> None:
    (out / "a/b").mkdir(parents=True)
    (out / "model.bin").write_bytes(b"weights")
    (out / "a/b/log.txt").write_bytes(b"line\n")
    (out / "empty").touch()
    assert collect(out) == ({"model.bin": b"weights", "a/b/log.txt": b"line\n", "empty": b""}, {})


@pytest.mark.usefixtures("_opener")
def test_links_are_skipped_wherever_they_lead(out: Path) -> None:
    (out / "shadow").symlink_to("/etc/shadow")
    (out / "etc").symlink_to("/etc")
    (out / "up").symlink_to("..")
    (out / "loop").symlink_to("loop")
    (out / "inside").symlink_to("real")
    (out / "real").write_bytes(b"x")
    taken, skipped = collect(out)
    assert taken == {"real": b"x"}
    assert set(skipped) == {"shadow", "etc", "up", "loop", "inside"}
    assert all("symbolic link" in reason for reason in skipped.values())


@pytest.mark.usefixtures("_opener")
def test_fifos_sockets_and_devices_are_skipped_and_never_opened(out: Path) -> None:
    os.mkfifo(out / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(out / "socket"))
    if os.geteuid() == 0:
        os.mknod(out / "device", 0o666 | 0o020000, os.makedev(1, 3))
    taken, skipped = collect(out)
    assert taken == {}
    assert "FIFO" in skipped["fifo"]
    assert "socket" in skipped["socket"]
    assert os.geteuid() != 0 or "device" in skipped["device"]


def test_hard_links_are_skipped_under_every_name(out: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"of another")
    (out / "stolen").hardlink_to(secret)
    (out / "one").write_bytes(b"x")
    (out / "two").hardlink_to(out / "one")
    taken, skipped = collect(out)
    assert taken == {}
    assert set(skipped) == {"stolen", "one", "two"}


def test_a_set_uid_file_gives_its_content_and_nothing_else(out: Path) -> None:
    (out / "program").write_bytes(b"#!/bin/sh\n")
    (out / "program").chmod(0o6755)
    assert collect(out) == ({"program": b"#!/bin/sh\n"}, {})


def test_sparse_terabytes_are_skipped(out: Path) -> None:
    with (out / "sparse").open("wb") as file:
        file.truncate(8 << 40)
    with (out / "small").open("wb") as file:
        file.truncate(1 << 30)
    taken, skipped = collect(out)
    assert taken == {}
    assert "a file may have" in skipped["sparse"]
    assert "sparse" in skipped["small"]


@pytest.mark.parametrize(
    "name", [b"new\nline", b"tab\tbed", b"bell\x07", b"escape\x1b[31m", b"\xff\xfe", b"caf\xe9", "‮txt.exe".encode()]
)
def test_names_that_could_forge_a_line_are_skipped_and_shown_harmless(out: Path, name: bytes) -> None:
    (Path(os.fsdecode(os.fsencode(out) + b"/" + name))).write_bytes(b"x")
    taken, skipped = collect(out)
    assert taken == {}
    (shown,) = skipped
    assert shown.isprintable()
    shown.encode()


def test_a_folder_with_a_bad_name_is_skipped_with_all_that_is_in_it(out: Path) -> None:
    (out / "bad\nfolder").mkdir()
    (out / "bad\nfolder/file").write_bytes(b"x")
    taken, skipped = collect(out)
    assert taken == {}
    assert list(skipped) == ["bad\\nfolder"]


def test_ordinary_names_of_all_languages_are_kept(out: Path) -> None:
    names = {"größe.txt", "モデル.bin", "with space", "emoji 👩‍🔬", "-rf", "a\\b", "'quoted'"}
    for name in names:
        (out / name).write_bytes(b"x")
    taken, skipped = collect(out)
    assert set(taken) == names
    assert skipped == {}


def test_depth_is_capped(out: Path) -> None:
    deep = out
    for _ in range(40):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(b"x")
    taken, skipped = collect(out)
    assert taken == {}
    (reason,) = skipped.values()
    assert "deeper than 32" in reason


def test_the_number_of_files_is_capped_and_said(out: Path) -> None:
    for number in range(20):
        (out / str(number)).write_bytes(b"x")
    taken, skipped = collect(out, replace(LIMITS, files_max=5))
    assert len(taken) == 5
    assert "more than 5 files" in skipped["…"]


def test_the_total_is_capped_file_by_file(out: Path) -> None:
    for number in range(4):
        (out / str(number)).write_bytes(b"x" * 10_000)
    taken, skipped = collect(out, replace(LIMITS, total_bytes_max=25_000))
    assert len(taken) == 2
    assert all("in all" in reason for reason in skipped.values())


def test_one_file_is_capped(out: Path) -> None:
    (out / "large").write_bytes(b"x" * 1001)
    _, skipped = collect(out, replace(LIMITS, file_bytes_max=1000))
    assert "1001 bytes" in skipped["large"]


def test_many_links_end_fast_with_a_bounded_list(out: Path) -> None:
    for number in range(30_000):
        (out / str(number)).symlink_to("/etc/shadow")
    started = time.monotonic()
    root = os.open(out, os.O_RDONLY)
    collector = Collector(root, replace(LIMITS, entries_max=20_000))
    assert list(collector.files()) == []
    os.close(root)
    assert time.monotonic() - started < 5
    assert len(collector.skipped) == 1000 + 2
    assert "19000 more" in collector.skipped[-1].reason
    assert "more than 20000 entries" in collector.skipped[-2].reason


def test_the_walk_ends_when_its_time_is_over(out: Path) -> None:
    for number in range(10):
        (out / str(number)).write_bytes(b"x")
    taken, skipped = collect(out, replace(LIMITS, seconds_max=0.0))
    assert taken == {}
    assert "longer than 0 s" in skipped["…"]


def test_descriptors_do_not_pile_up(out: Path) -> None:
    for number in range(200):
        (out / f"folder{number}").mkdir()
        (out / f"folder{number}/file").write_bytes(b"x")
    before = open_files()
    root = os.open(out, os.O_RDONLY)
    most = max(open_files() for _ in Collector(root, LIMITS).files())
    os.close(root)
    assert most - before < 10
    assert open_files() == before


def test_a_walk_that_is_given_up_closes_everything(out: Path) -> None:
    (out / "folder").mkdir()
    (out / "folder/file").write_bytes(b"x")
    before = open_files()
    root = os.open(out, os.O_RDONLY)
    files = Collector(root, LIMITS).files()
    assert isinstance(files, Iterator)
    next(files)
    files.close()  # type: ignore[attr-defined]
    os.close(root)
    assert open_files() == before


def test_what_is_shown_of_a_name_is_short() -> None:
    assert len(printable("x" * 10_000)) == 256
    assert len(printable("\n" * 10_000)) == 256
