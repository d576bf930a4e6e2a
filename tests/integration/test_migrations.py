"""The migrations make exactly what the models say, on both engines."""

import subprocess
import sys
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine

from store.engine import open_engine
from store.migrate import is_current
from store.tables import Tenant


def test_migrations_equal_the_models(engine: Engine) -> None:
    assert is_current(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Tenant.metadata) == []


def test_processes_may_migrate_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'fresh.db'}"
    program = "import sys; from store.engine import open_engine; from store.migrate import migrate\n"
    command = [sys.executable, "-c", f"{program}migrate(open_engine(sys.argv[1]))", url]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0, 0, 0, 0]
    engine = open_engine(url)
    assert is_current(engine)
    engine.dispose()
