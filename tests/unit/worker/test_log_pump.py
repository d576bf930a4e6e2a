"""The log's way: in order, once, from where the server says, whatever restarts."""

from pathlib import Path

import pytest
from corral.contract import Problem
from hypothesis import given
from hypothesis import strategies as st

from worker.api_link import Away, LogGap, Refused
from worker.logs import SEGMENT_BYTES, LogPump, Pace


class Shelf:
    """What a server promises of a log: it trims what it has, and refuses a gap."""

    def __init__(self) -> None:
        self.held = b""

    def append(self, offset: int, data: bytes) -> int:
        if offset > len(self.held):
            raise LogGap(a_problem("log_gap", len(self.held)))
        self.held += data[len(self.held) - offset :]
        return len(self.held)


def a_problem(code: str, size_bytes: int = 0) -> Problem:
    errors = [{"size_bytes": str(size_bytes)}]
    return Problem(type="about:blank", title=code, status=409, code=code, detail=code, errors=errors)


def pump_all(pump: LogPump) -> None:
    while pump.is_behind():
        pump.step()


def test_a_log_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    pump = LogPump(tmp_path / "log", Shelf().append)
    assert not pump.step()
    assert not pump.is_behind()


@given(parts=st.lists(st.binary(max_size=3 * SEGMENT_BYTES // 2), max_size=5), restart_at=st.integers(0, 5))
def test_every_byte_arrives_once_though_the_agent_restarts(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], restart_at: int
) -> None:
    path, shelf = tmp_path_factory.mktemp("log") / "log", Shelf()
    pump = LogPump(path, shelf.append)
    for number, part in enumerate(parts):
        with path.open("ab") as log:
            log.write(part)
        pump.step()
        if number == restart_at:
            pump = LogPump(path, shelf.append)
    pump_all(pump)
    assert shelf.held == b"".join(parts)


def test_a_server_that_lost_some_is_given_it_again(tmp_path: Path) -> None:
    path, shelf = tmp_path / "log", Shelf()
    path.write_bytes(b"abcdef")
    pump = LogPump(path, shelf.append)
    pump_all(pump)
    shelf.held = b"ab"
    with path.open("ab") as log:
        log.write(b"gh")
    pump_all(pump)
    assert shelf.held == b"abcdefgh"


def test_a_refusal_ends_the_pumping_and_nothing_else(tmp_path: Path) -> None:
    def refuse(offset: int, data: bytes) -> int:
        raise Refused(a_problem("too_large"))

    path = tmp_path / "log"
    path.write_bytes(b"abc")
    pump = LogPump(path, refuse)
    pump.step()
    assert not pump.is_behind()


def test_silence_of_the_server_loses_nothing(tmp_path: Path) -> None:
    shelf, answers = Shelf(), iter([False, True])

    def sometimes(offset: int, data: bytes) -> int:
        if not next(answers):
            raise Away("no answer")
        return shelf.append(offset, data)

    path = tmp_path / "log"
    path.write_bytes(b"abc")
    pump = LogPump(path, sometimes)
    with pytest.raises(Away):
        pump.step()
    pump_all(pump)
    assert shelf.held == b"abc"


def test_a_fresh_job_is_looked_at_often_and_a_silent_old_one_seldom() -> None:
    pace = Pace()
    assert pace.after(1.0, is_moving=False) <= 0.2
    pauses = [pace.after(60.0, is_moving=False) for _ in range(20)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0
    assert pace.after(60.0, is_moving=True) <= 0.2
