"""Statements for the way of new jobs: made into text once, and several of them in one round trip to PostgreSQL.

What SQLAlchemy does at each execution costs a submission more than the database does. Here a statement, made of its
core, is compiled once; what is bound and what is found pass through the types of its columns as ever.
"""

import json
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import Dialect, Select, Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import UpdateBase
from sqlmodel import Session

Values = Mapping[str, Any]
"""By the names of a statement's parameters; those of an expanding one are a list of at least one."""
Process = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT, or a change with RETURNING, and what is bound to it."""

    statement: Select[Any] | UpdateBase
    values: Values


@dataclass(frozen=True, slots=True)
class Rows:
    """New rows of a table, all with the same columns."""

    table: Table
    rows: Sequence[Values]
    or_nothing: bool = False
    """Rows whose key is taken are left out; the others are counted."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a step."""

    found: Sequence[Any]
    """Rows, with a name for each column."""
    count: int
    """Rows that were found, changed or added."""


def take_steps(session: Session, *steps: Query | Rows) -> list[Done]:
    """Take the steps in their order, and tell what came of each.

    Raises:
        DBAPIError: as SQLAlchemy would raise it, once the first has failed.
    """
    connection = session.connection()
    dialect, raw = connection.dialect, cast(Any, connection.connection.driver_connection)
    take = _on_sqlite if dialect.name == "sqlite" else _on_postgres
    try:
        return take(dialect, raw, steps)
    except dialect.loaded_dbapi.Error as error:
        is_lost = dialect.is_disconnect(error, raw, None)
        if is_lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            None, None, error, dialect.loaded_dbapi.Error, connection_invalidated=is_lost, dialect=dialect
        ) from error


def _on_sqlite(dialect: Dialect, raw: Any, steps: Sequence[Query | Rows]) -> list[Done]:
    done = []
    for step in steps:
        if isinstance(step, Rows):
            text, processes = _sqlite_insert(dialect, step.table, tuple(step.rows[0]), step.or_nothing)
            bound = [
                tuple(value if process is None or value is None else process(value) for process, value in pairs)
                for pairs in (zip(processes, row.values(), strict=True) for row in step.rows)
            ]
            done.append(Done((), raw.executemany(text, bound).rowcount))
        else:
            compiled = _compiled(dialect, step)
            cursor = raw.execute(compiled.text, compiled.bound(step.values))
            done.append(compiled.done(cursor))
    return done


def _on_postgres(dialect: Dialect, raw: Any, steps: Sequence[Query | Rows]) -> list[Done]:
    sent: list[tuple[_Compiled | None, Any]] = []
    with ExitStack() as together:
        if len(steps) > 1:
            together.enter_context(raw.pipeline())
        for step in steps:
            if isinstance(step, Rows):
                text = _postgres_insert(step.table, tuple(step.rows[0]), step.or_nothing)
                rows = json.dumps(step.rows, default=_as_bytea)
                sent.append((None, raw.execute(text, {"rows": rows}, prepare=True)))
            else:
                compiled = _compiled(dialect, step)
                sent.append((compiled, raw.execute(compiled.text, compiled.bound(step.values), prepare=True)))
    return [Done((), cursor.rowcount) if compiled is None else compiled.done(cursor) for compiled, cursor in sent]


def _as_bytea(value: object) -> str:
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    raise TypeError(type(value))


@lru_cache(maxsize=200)
def _sqlite_insert(
    dialect: Dialect, table: Table, names: tuple[str, ...], or_nothing: bool
) -> tuple[str, Sequence[Process | None]]:
    columns, places = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
    text = f'INSERT INTO "{table.name}" ({columns}) VALUES ({places})'  # noqa: S608 - names of the schema
    processes = [table.c[name].type.dialect_impl(dialect).bind_processor(dialect) for name in names]
    return text + (" ON CONFLICT DO NOTHING" if or_nothing else ""), processes


@lru_cache(maxsize=200)
def _postgres_insert(table: Table, names: tuple[str, ...], or_nothing: bool) -> str:
    """All rows are one parameter, which the database takes apart."""
    columns = ", ".join(f'"{name}"' for name in names)
    text = (
        f'INSERT INTO "{table.name}" ({columns}) '  # noqa: S608 - names of the schema
        f'SELECT {columns} FROM json_populate_recordset(NULL::"{table.name}", %(rows)s::json)'
    )
    return text + (" ON CONFLICT DO NOTHING" if or_nothing else "")


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    constants: Values
    expanded: Mapping[str, Sequence[str]]
    """Names of an expanding parameter's places."""
    processes: Mapping[str, Process | None]
    order: Sequence[str] | None
    """Of the places, for a driver that goes by it."""
    row: Callable[[Iterable[Any]], Any]
    found: Sequence[Process | None]

    def bound(self, values: Values) -> Any:
        """What the driver is given."""
        named = dict(self.constants)
        for name, value in values.items():
            process = self.processes.get(name)
            if name in self.expanded:
                places = self.expanded[name]
                padded = [*value, *(value[-1],) * (len(places) - len(value))]
                named.update(zip(places, padded, strict=True))
            else:
                named[name] = value if process is None or value is None else process(value)
        return named if self.order is None else [named[name] for name in self.order]

    def done(self, cursor: Any) -> Done:
        """The rows as they are read; how many were changed, if none are asked for."""
        if not self.found:
            return Done((), cursor.rowcount)
        found = [self.row(map(_read, self.found, row)) for row in cursor.fetchall()]
        return Done(found, len(found))


def _read(process: Process | None, value: Any) -> Any:
    return value if process is None else process(value)


def _compiled(dialect: Dialect, query: Query) -> _Compiled:
    sizes = tuple((name, _places(len(value))) for name, value in query.values.items() if isinstance(value, list))
    return _compile(dialect, query.statement, tuple(query.values), sizes)


def _places(number: int) -> int:
    """Room for so many values; few sizes make few texts."""
    return 1 << (number - 1).bit_length()


@lru_cache(maxsize=500)
def _compile(
    dialect: Dialect,
    statement: Select[Any] | UpdateBase,
    names: tuple[str, ...],
    sizes: tuple[tuple[str, int], ...],
) -> _Compiled:
    compiled: Any = statement.compile(dialect=dialect)
    sample: dict[str, Any] = {**dict.fromkeys(names), **{name: [""] * size for name, size in sizes}}
    state = compiled.construct_expanded_state(sample)
    expanded = {name: list(state.parameter_expansion[name]) for name, _ in sizes}
    given = {*names, *(place for places in expanded.values() for place in places)}
    processes = {name: bind.type.dialect_impl(dialect).bind_processor(dialect) for name, bind in compiled.binds.items()}
    columns = list(statement.exported_columns)
    names_found = [column.name for column in columns]
    row: Any = namedtuple("Found", names_found)  # type: ignore[misc]
    return _Compiled(
        text=state.statement,
        constants={
            name: process(value) if (process := processes.get(name)) is not None and value is not None else value
            for name, value in state.parameters.items()
            if name not in given
        },
        expanded=expanded,
        processes=processes,
        order=None if state.positiontup is None else list(state.positiontup),
        row=row._make,
        found=[column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns],
    )
