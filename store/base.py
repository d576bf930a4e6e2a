"""The base of every table, and the columns that all of them share."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Integer, MetaData, Table
from sqlmodel import Field, SQLModel

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


EVENT_ID: Any = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself in an INTEGER column only."""


class Row(SQLModel):
    """The base of every table; it has metadata of its own, with names for all constraints."""

    metadata = MetaData(naming_convention=NAMING)


def big(**rest: Any) -> Any:
    """A whole number of 64 bits."""
    return Field(sa_type=BigInteger, **rest)


def json(**rest: Any) -> Any:
    """A value of JSON."""
    return Field(sa_type=JSON, **rest)


def table_of(row: type[Row]) -> Table:
    """The plain table below a class of rows: statements on it, made once, cost a fraction of the ORM's."""
    return row.metadata.tables[str(row.__tablename__)]
