"""The database's clock, by which everything up to a claim is timed."""

import time

from sqlalchemy import text
from sqlmodel import Session

from domain.ids import Instant

_POSTGRES_NOW = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")


def now_us(session: Session) -> Instant:
    """Microseconds since the epoch. With SQLite the database is this machine, and so is its clock."""
    if session.get_bind().dialect.name == "postgresql":
        return Instant(int(session.connection().execute(_POSTGRES_NOW).scalar_one()))
    return Instant(time.time_ns() // 1000)
