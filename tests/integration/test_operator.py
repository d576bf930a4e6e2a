"""What an operator gets wrong is answered by one line that helps, and never by a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corrald.home import Home, HomeUnusable
from corrald.refusals import Refusal, explained
from corrald.up import without_credentials
from worker.service import CannotServe


def corrald(folder: Path, *arguments: str, **env: str) -> tuple[int, list[str]]:
    """Run the command; the exit code and the lines on standard error."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CORRAL_")}
    done = subprocess.run(
        [sys.executable, "-m", "corrald.main", *arguments],
        env={**clean, "CORRAL_DATA_DIR": str(folder / "node"), **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr.decode().splitlines()


@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        (["api"], {}, "CORRAL_DATABASE_URL: Field required"),
        (["worker"], {}, "set CORRAL_JOIN_TOKEN"),
        (["worker"], {"CORRAL_LEVELS": "process,paper"}, "CORRAL_LEVELS: "),
        (["migrate"], {"CORRAL_DATABASE_URL": "elsewhere"}, "the database's URL"),
        (["migrate"], {"CORRAL_DATABASE_URL": "postgresql://u:secret@127.0.0.1:1/x"}, "Connection refused"),
    ],
)
def test_a_mistake_is_answered_by_one_line(
    tmp_path: Path, arguments: list[str], env: dict[str, str], said: str
) -> None:
    code, lines = corrald(tmp_path, *arguments, **env)
    assert (code, len(lines)) == (1, 1)
    assert lines[0].startswith("corrald: ")
    assert said in lines[0]
    assert "secret" not in lines[0]


def test_a_key_needs_a_database_that_was_begun(tmp_path: Path) -> None:
    code, lines = corrald(tmp_path, "admin-key", "--home", str(tmp_path / "nowhere"))
    assert (code, len(lines)) == (1, 1)
    assert "corrald up" in lines[0]
    assert not (tmp_path / "nowhere").exists()


def test_what_nobody_expected_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), explained():
        raise ZeroDivisionError
    with pytest.raises(Refusal, match="no token"), explained():
        raise CannotServe("no token")


def test_a_home_serves_one_at_a_time(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.held(), pytest.raises(HomeUnusable, match="another"), home.held():
        pass
    with home.held():
        pass


def test_a_backup_of_a_home_holds_every_key_that_its_commands_made(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    place = ("--home", str(home.path))
    assert corrald(tmp_path, "migrate", CORRAL_DATABASE_URL=home.database_url)[0] == 0
    for kind in ("secrets", "signing"):
        assert corrald(tmp_path, "keys", "new", kind, *place) == (0, [])
    assert corrald(tmp_path, "backup", str(tmp_path / "backup"), *place) == (0, [])
    kept = {file.name: file.read_bytes() for file in (tmp_path / "backup" / "keys").iterdir()}
    assert kept == {file.name: file.read_bytes() for file in home.control_dir.glob("*.key")}
    assert len(kept) == 2


def test_a_worker_is_given_nothing_of_the_control_planes_or_an_admins_environment() -> None:
    secret = {"CORRAL_DATABASE_URL", "CORRAL_SIGNING_KEY_FILE", "CORRAL_STORAGE_OPTIONS", "CORRAL_OIDC_CLIENT_SECRET"}
    secret |= {"CORRAL_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_CONTAINER_CREDENTIALS_FULL_URI"}
    of_a_worker = {"CORRAL_LEVELS", "CORRAL_API_CA_FILE", "PATH"}
    assert without_credentials(dict.fromkeys(secret | of_a_worker, "x")) == dict.fromkeys(secret, "")
