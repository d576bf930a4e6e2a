"""An attempt's folder: what was journaled is there after a crash, and what was half written is not."""

import errno
import os
from pathlib import Path

import pytest

from domain.ids import AttemptId, Fence
from worker.state_folder import JOURNAL, Stage, create, found

ATTEMPT = AttemptId("att_" + "1" * 26)


def test_what_was_noted_is_found_again(tmp_path: Path) -> None:
    folder = create(tmp_path, ATTEMPT, Fence(3))
    folder.note(Stage.CLAIMED, order={"a": 1}, claimed_us=5)
    [again] = found(tmp_path)
    assert (again.attempt_id, again.fence) == (ATTEMPT, 3)
    assert again.facts(Stage.CLAIMED) == {"order": {"a": 1}, "claimed_us": 5}
    assert again.facts(Stage.OPENING) is None


def test_a_stage_is_noted_once(tmp_path: Path) -> None:
    folder = create(tmp_path, ATTEMPT, Fence(3))
    folder.note(Stage.ENDED, outcome="exited")
    folder.note(Stage.ENDED, outcome="sandbox_error")
    [again] = found(tmp_path)
    assert again.facts(Stage.ENDED) == {"outcome": "exited"}


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_line_that_a_crash_cut_short_never_was(tmp_path: Path, cut: int) -> None:
    folder = create(tmp_path, ATTEMPT, Fence(3))
    folder.note(Stage.OPENING, sandbox_id="x")
    journal = folder.path / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-cut])
    [again] = found(tmp_path)
    assert again.facts(Stage.OPENING) is None
    again.note(Stage.OPENING, sandbox_id="y")
    [once_more] = found(tmp_path)
    assert once_more.facts(Stage.OPENING) == {"sandbox_id": "y"}


def test_a_folder_without_a_first_line_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / ATTEMPT).mkdir()
    assert list(found(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_half_deleted_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / f"{ATTEMPT}.gone" / "in").mkdir(parents=True)
    assert list(found(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_attempts_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    assert list(found(tmp_path)) == []
    assert (tmp_path / "lost+found").is_dir()


def test_deleting_twice_is_deleting_once(tmp_path: Path) -> None:
    folder = create(tmp_path, ATTEMPT, Fence(3))
    folder.delete()
    folder.delete()
    assert list(tmp_path.iterdir()) == []


def test_the_same_attempt_is_not_begun_twice(tmp_path: Path) -> None:
    create(tmp_path, ATTEMPT, Fence(3))
    with pytest.raises(FileExistsError):
        create(tmp_path, ATTEMPT, Fence(4))


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = create(tmp_path, ATTEMPT, Fence(3))

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            folder.note(Stage.ENDED, outcome="exited")
    assert folder.facts(Stage.ENDED) is None
    folder.note(Stage.ENDED, outcome="oom_killed")
    [again] = found(tmp_path)
    assert again.facts(Stage.ENDED) == {"outcome": "oom_killed"}


def test_a_folder_that_could_not_be_begun_for_want_of_disk_can_be_begun_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            create(tmp_path, ATTEMPT, Fence(3))
    assert list(tmp_path.iterdir()) == []
    assert create(tmp_path, ATTEMPT, Fence(3)).facts(Stage.CLAIMING) == {"fence": 3}


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"stage":"of_the_future"}\n', b"{}\n"])
def test_a_damaged_journal_is_left_alone_and_hides_no_other(tmp_path: Path, line: bytes) -> None:
    damaged = create(tmp_path, ATTEMPT, Fence(3))
    with (damaged.path / JOURNAL).open("ab") as journal:
        journal.write(line)
    other = create(tmp_path, AttemptId("att_" + "2" * 26), Fence(1))
    assert [folder.attempt_id for folder in found(tmp_path)] == [other.attempt_id]
    assert damaged.path.is_dir()


def test_a_folder_in_which_a_sandbox_lives_is_not_swept_away(tmp_path: Path) -> None:
    folder = create(tmp_path, ATTEMPT, Fence(3))
    (folder.path / JOURNAL).unlink()
    (folder.path / "runner.sock").touch()
    assert list(found(tmp_path)) == []
    assert folder.path.is_dir()
