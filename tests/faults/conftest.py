"""A world with a real API and a node, shared by the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from node_parts import World


@pytest.fixture(scope="module")
def world(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    database = folder / "corral.db"
    database.write_bytes(sqlite_template.read_bytes())
    opened = World(folder, database)
    yield opened
    opened.close()
