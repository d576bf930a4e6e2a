"""The runner's journal and pump, on real files and a real FIFO, with no sandbox."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.runner.journal import JOURNAL, Journal
from sandbox.runner.loop import Loop, now_us
from sandbox.runner.pump import LOG, LOG_FIFO, Pump
from sandbox.runner_link import journalled_exit


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A state folder, which is the runner's working folder."""
    before = Path.cwd()
    os.chdir(tmp_path)
    (tmp_path / "gate").mkdir()
    os.mkfifo(tmp_path / LOG_FIFO)
    yield tmp_path
    os.chdir(before)


def write(fd: int, data: bytes) -> None:
    assert os.write(fd, data) == len(data)


def turns(loop: Loop, within_us: int) -> None:
    """Let the loop work for a while of its own clock."""
    until = now_us() + within_us
    loop.at("end of test", until, lambda: None)
    while now_us() < until:
        loop.turn()


def test_what_was_journalled_is_found_again(folder: Path) -> None:
    Journal().append("opened")
    Journal().append("stop", reason="cancelled", grace_us=5)
    found = Journal()
    assert [entry["what"] for entry in found.entries] == ["opened", "stop"]
    assert (found.find("stop") or {})["reason"] == "cancelled"
    assert found.find("exited") is None


@pytest.mark.parametrize("torn", [b'{"what": "exi', b"\0\0\0", b'{"what": "exited", "code"'])
def test_a_line_that_a_crash_cut_off_is_no_entry_and_harms_none(folder: Path, torn: bytes) -> None:
    Journal().append("opened")
    with (folder / JOURNAL).open("ab") as file:
        file.write(torn)
    Journal().append("stop", reason="cancelled")
    assert [entry["what"] for entry in Journal().entries] == ["opened", "stop"]
    assert journalled_exit(folder) is None


def test_an_end_is_read_without_a_runner(folder: Path) -> None:
    facts = {"code": 3, "oom": False, "reason": None, "run_us": 5, "stop_us": 0, "error": "", "is_gate_opened": True}
    Journal().append("exited", **facts)
    end = journalled_exit(folder)
    assert end is not None
    assert (end.exit_code, end.run_us, end.is_gate_opened) == (3, 5, True)
    assert json.loads((folder / JOURNAL).read_text())["what"] == "exited"


def test_bytes_pass_as_they_are(folder: Path) -> None:
    loop = Loop()
    pump = Pump(loop, 1 << 20, 1 << 20)
    fifo = os.open(folder / LOG_FIFO, os.O_RDWR)
    data = bytes(range(256)) * 100
    write(fifo, data)
    loop.turn()
    pump.drain()
    assert (folder / LOG).read_bytes() == data
    os.close(fifo)


def test_the_cut_is_marked_once_and_stays_over_a_restart(folder: Path) -> None:
    fifo = os.open(folder / LOG_FIFO, os.O_RDWR)
    for _ in range(2):  # the second is the runner that took over
        pump = Pump(Loop(), 10, 1 << 20)
        write(fifo, b"0123456789abcdef")
        pump.drain()
    log = (folder / LOG).read_bytes()
    assert log.startswith(b"0123456789\n[corral: ")
    assert log.count(b"corral") == 1
    os.close(fifo)


def test_exactly_as_much_as_may_be_is_not_cut(folder: Path) -> None:
    fifo = os.open(folder / LOG_FIFO, os.O_RDWR)
    pump = Pump(Loop(), 10, 1 << 20)
    write(fifo, b"0123456789")
    pump.drain()
    assert (folder / LOG).read_bytes() == b"0123456789"
    os.close(fifo)


def test_a_fast_writer_is_read_at_the_rate(folder: Path) -> None:
    loop = Loop()
    Pump(loop, 1 << 30, 50_000)
    fifo = os.open(folder / LOG_FIFO, os.O_RDWR | os.O_NONBLOCK)
    begin, taken = now_us(), 0
    while now_us() - begin < 500_000:
        try:
            taken += os.write(fifo, bytes(4096))
        except BlockingIOError:
            turns(loop, 10_000)
    size = (folder / LOG).stat().st_size
    assert 65_000 < size < 65_536 + 50_000 * (now_us() - begin) / 1e6 + 4096
    os.close(fifo)


def test_a_disk_that_is_full_ends_nothing(folder: Path) -> None:
    (folder / LOG).symlink_to("/dev/full")
    pump = Pump(Loop(), 1 << 20, 1 << 20)
    fifo = os.open(folder / LOG_FIFO, os.O_RDWR)
    write(fifo, b"x")
    pump.drain()
    write(fifo, b"y")
    pump.drain()
    os.close(fifo)


def test_times_are_kept_and_a_name_has_one(folder: Path) -> None:
    loop, called = Loop(), []
    now = now_us()
    loop.at("one", now + 20_000, lambda: called.append("late"))
    loop.at("one", now + 10_000, lambda: called.append("one"))
    loop.at("two", now + 5_000, lambda: called.append("two"))
    loop.at("three", now, lambda: called.append("three"))
    loop.at("three", None, lambda: None)
    turns(loop, 50_000)
    assert called == ["two", "one"]
