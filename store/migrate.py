"""Bringing the database's tables to what the code expects."""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

from store.engine import WRITES

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK_KEY = 0x636F7272616C
"""Advisory lock on PostgreSQL: two processes that start at once must not both migrate."""


def migrate(engine: Engine) -> None:
    """Run what has not run yet. Safe to call from several processes at once."""
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def is_current(engine: Engine) -> bool:
    """Whether the database is at the newest migration that this code knows."""
    with engine.connect() as connection:
        heads = MigrationContext.configure(connection).get_current_heads()
    return set(heads) == newest()


@cache
def newest() -> frozenset[str]:
    """The migration that this code expects; asked by every look at `/readyz`, and always the same."""
    return frozenset(ScriptDirectory.from_config(_config()).get_heads())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
