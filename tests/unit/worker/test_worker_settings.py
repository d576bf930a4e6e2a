"""What a worker is told."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from domain.levels import Level
from worker.settings import WorkerSettings


def test_levels_are_read_from_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_LEVELS", "process, container")
    assert WorkerSettings().levels == (Level.PROCESS, Level.CONTAINER)


def test_an_unknown_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_LEVELS", "chroot")
    with pytest.raises(ValidationError):
        WorkerSettings()


def test_a_join_token_does_not_show_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_JOIN_TOKEN", "corraljoin_secret")
    assert "corraljoin_secret" not in repr(WorkerSettings())


def test_places_lie_in_the_data_folder() -> None:
    settings = WorkerSettings(data_dir=Path("/srv/node"))
    assert settings.attempts_dir == Path("/srv/node/attempts")
    assert settings.poke_socket == Path("/srv/node/poke.sock")
