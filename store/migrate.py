"""Bringing the database's tables to what the code expects."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from store.engine import WRITES

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK_KEY = 0x636F7272616C
"""Advisory lock on PostgreSQL: two processes that start at once must not both migrate."""


def migrate(engine: Engine) -> None:
    """Run what has not run yet. Safe to call from several processes at once."""
    with _connected(engine) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        if engine.dialect.name == "sqlite" and (dangling := connection.execute(text("PRAGMA foreign_key_check")).all()):
            raise RuntimeError(f"the migrations would leave references to rows that are gone: {dangling[:3]}")


def is_current(engine: Engine) -> bool:
    """Whether the database is at the newest migration that this code knows."""
    with engine.connect() as connection:
        heads = MigrationContext.configure(connection).get_current_heads()
    return set(heads) == newest()


@cache
def newest() -> frozenset[str]:
    """The migration that this code expects; asked by every look at `/readyz`, and always the same."""
    return frozenset(ScriptDirectory.from_config(_config()).get_heads())


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    """A connection that will write. On SQLite, foreign keys are not enforced meanwhile.

    There a column is changed by making its table anew, and a table to which others refer could not be dropped. The
    pragma has no effect inside of a transaction, so it stands around it.
    """
    with engine.connect().execution_options(**{WRITES: True}) as connection:
        if engine.dialect.name != "sqlite":
            yield connection
            return
        driver: Any = connection.connection.dbapi_connection
        driver.execute("PRAGMA foreign_keys=OFF")
        try:
            yield connection
        finally:
            driver.execute("PRAGMA foreign_keys=ON")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
