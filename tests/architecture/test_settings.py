"""docs/settings.md names every variable that a service or a command reads, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic_settings import BaseSettings

from api.oidc_settings import OidcSettings
from api.settings import ApiSettings
from control.settings import ControlSettings
from corrald.main import app
from store.settings import StoreSettings
from worker.settings import WorkerSettings

ROOT = Path(__file__).parents[2]
CLASSES: tuple[type[BaseSettings], ...] = (ApiSettings, OidcSettings, ControlSettings, StoreSettings, WorkerSettings)
ROWS = [line.split("|")[1] for line in (ROOT / "docs/settings.md").read_text().splitlines() if line.startswith("| `")]
NAMED = [name for row in ROWS for name in re.findall(r"`(CORRAL_[A-Z_]+)`", row)]


def read_by(settings: type[BaseSettings]) -> set[str]:
    """The variables of a class; one that is a class of its own has variables of its own."""
    prefix = settings.model_config.get("env_prefix", "")
    return {
        f"{prefix}{name}".upper() for name, field in settings.model_fields.items() if field.annotation not in CLASSES
    }


def options(command: Any) -> Iterator[str]:
    """The variables that stand for options of `corrald`."""
    for each in getattr(command, "commands", {}).values():
        yield from options(each)
    yield from (str(parameter.envvar) for parameter in command.params if parameter.envvar)


@pytest.mark.parametrize("settings", CLASSES, ids=lambda settings: settings.__name__)
def test_every_setting_is_told(settings: type[BaseSettings]) -> None:
    assert read_by(settings) <= set(NAMED)


def test_every_option_that_a_variable_stands_for_is_told_and_nothing_that_is_not_there() -> None:
    read = set().union(*map(read_by, CLASSES)) | set(options(typer.main.get_command(app)))
    for path in (ROOT / "sdk/corral").rglob("*.py"):
        read |= set(re.findall(r'environ\.get\("(CORRAL_[A-Z_]+)"', path.read_text()))
    assert set(NAMED) == read


def test_each_is_told_once() -> None:
    assert len(NAMED) == len(set(NAMED))


def test_there_are_no_other_classes_of_settings() -> None:
    found = [path for path in ROOT.glob("*/*.py") if re.search(r"\((Base|Store)Settings\):", path.read_text())]
    assert len(found) == len(CLASSES)
