"""Fixtures for every tier: a migrated database of the test's own, on each engine."""

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

sys.path.insert(0, str(Path(__file__).parent))  # so that `services` and the builders can be imported without packages

import services
from hypothesis import settings

from store.engine import open_engine
from store.migrate import migrate

settings.register_profile("corral", deadline=None)  # how long an example takes is the machine's matter
settings.load_profile("corral")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite file to be copied."""
    path = tmp_path_factory.mktemp("template") / "corral.db"
    engine = open_engine(f"sqlite:///{path}")
    migrate(engine)
    engine.dispose()
    return path


@pytest.fixture(scope="session")
def postgres_template() -> Iterator[str]:
    """The name of a migrated, empty PostgreSQL database to be copied."""
    url = services.need_postgres()
    name = f"corral_template_{secrets.token_hex(4)}"
    _administer(url, f'CREATE DATABASE "{name}"')
    engine = open_engine(_with_database(url, name))
    migrate(engine)
    engine.dispose()
    yield name
    _drop(url, name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What has a database is tried on each engine, but where a module says that the engine has no part in it."""
    if "database_url" in metafunc.fixturenames:
        on_one = metafunc.definition.get_closest_marker("one_engine") is not None
        metafunc.parametrize("database_url", ["sqlite"] if on_one else ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database, migrated."""
    if request.param == "sqlite":
        path = tmp_path / "corral.db"
        path.write_bytes(request.getfixturevalue("sqlite_template").read_bytes())
        yield f"sqlite:///{path}"
        return
    template = request.getfixturevalue("postgres_template")
    url, name = services.need_postgres(), f"corral_test_{secrets.token_hex(6)}"
    _administer(url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    yield _with_database(url, name)
    _drop(url, name)


@pytest.fixture
def empty_postgres_url() -> Iterator[str]:
    """The address of a PostgreSQL database with no table in it."""
    url, name = services.need_postgres(), f"corral_empty_{secrets.token_hex(6)}"
    _administer(url, f'CREATE DATABASE "{name}"')
    yield _with_database(url, name)
    _drop(url, name)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """That database, open."""
    opened = open_engine(database_url)
    yield opened
    opened.dispose()


def _with_database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def _drop(url: str, name: str) -> None:
    """Remove the database. PostgreSQL's own clean-up may be in it for a moment, and only a superuser could end that."""
    for attempt in Retrying(
        retry=retry_if_exception_type(DBAPIError), wait=wait_fixed(0.2), stop=stop_after_delay(30), reraise=True
    ):
        with attempt:
            _administer(url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _administer(url: str, statement: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()
