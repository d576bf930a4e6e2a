"""Opening the database, and the two kinds of transaction: one that reads, one that writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlmodel import Session

from store.audit import write_pending
from store.webhooks import write_deliveries

BUSY_TIMEOUT_MS = 15_000
"""How long a writer on SQLite waits for the one before it."""
WRITES = "corral_writes"
"""Execution option of a connection whose transaction will write."""


def open_engine(url: str, pool_size: int = 10) -> Engine:
    """The database at `url`: `sqlite:///path`, or `postgresql+psycopg://…` (a plain `postgresql://` means the same)."""
    parsed = make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite":
        return create_engine(parsed, pool_size=pool_size, max_overflow=pool_size, pool_pre_ping=True)
    engine = create_engine(parsed, connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_MS / 1000})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """A transaction that will write; what was noted for webhooks and the audit is written last.

    On SQLite it takes the write lock at once, so that it can't fail half-way.
    """
    with engine.connect().execution_options(**{WRITES: True}) as connection, Session(connection) as session:
        yield session
        session.flush()
        write_deliveries(session)
        write_pending(session)
        session.commit()


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A transaction that only reads; it never waits for a writer."""
    with Session(engine) as session:
        yield session


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself; _begin_sqlite does
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        f"busy_timeout={BUSY_TIMEOUT_MS}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Any) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
