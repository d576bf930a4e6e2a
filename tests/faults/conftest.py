"""A world with a real API and a node, shared by the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from node_parts import World, a_world


@pytest.fixture(scope="module")
def world(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(sqlite_template, tmp_path_factory.mktemp("world")) as opened:
        yield opened
