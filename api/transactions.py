"""The two transactions that a route can ask for. Each is over, committed, before the answer leaves.

As many are open at once as the database has room for, and no more: the others wait without holding a thread, else
forty requests that wait for SQLite's one write lock would keep its holder from finishing. Tenants take turns.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Annotated, TypeVar

import anyio
from anyio import CapacityLimiter
from fastapi import Depends, Request
from sqlalchemy import Engine
from sqlmodel import Session

from api.audit import note_change
from api.fairness import FairGate, Turn
from store.engine import reading, writing

T = TypeVar("T")


class Database:
    """The database as the routes of one process use it."""

    def __init__(self, engine: Engine, transactions_max: int) -> None:
        self.engine = engine
        half = max(1, transactions_max // 2)
        self._readers = FairGate(transactions_max, half)
        self._writers = FairGate(1) if engine.dialect.name == "sqlite" else FairGate(transactions_max, half)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Session]:
        """A transaction that only reads."""
        async with Turn(self._readers), _in_threads(reading(self.engine)) as session:
            yield session

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Session]:
        """A transaction that writes, committed at the end of the block."""
        async with Turn(self._writers), _in_threads(writing(self.engine)) as session:
            yield session

    async def read(self, question: Callable[[Session], T]) -> T:
        """What `question` finds, asked in a thread and a transaction of its own."""
        async with Turn(self._readers):
            return await anyio.to_thread.run_sync(_within, reading(self.engine), question)

    async def write(self, change: Callable[[Session], T]) -> T:
        """Do `change` in a thread and a transaction of its own, and commit it."""
        async with Turn(self._writers):
            return await anyio.to_thread.run_sync(_within, writing(self.engine), change)


def _within(manager: AbstractContextManager[Session], action: Callable[[Session], T]) -> T:
    """One stay in one thread, from the beginning of the transaction to its end."""
    with manager as session:
        return action(session)


@asynccontextmanager
async def _in_threads(manager: AbstractContextManager[Session]) -> AsyncIterator[Session]:
    """Enter and leave in a thread. Leaving needs no free place among the threads, and is not cut short."""
    session = await anyio.to_thread.run_sync(manager.__enter__)
    own_place = CapacityLimiter(1)
    try:
        yield session
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            trace = error.__traceback__
            await anyio.to_thread.run_sync(manager.__exit__, type(error), error, trace, limiter=own_place)
        raise
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(manager.__exit__, None, None, None, limiter=own_place)


async def database(request: Request) -> Database:
    """The process's database."""
    found: Database = request.app.state.database
    return found


AppDatabase = Annotated[Database, Depends(database)]
"""For routes that stream: they open short transactions of their own."""


async def _open_reading(database: AppDatabase) -> AsyncIterator[Session]:
    async with database.reading() as session:
        yield session


async def _open_writing(request: Request, database: AppDatabase) -> AsyncIterator[Session]:
    async with database.writing() as session:
        yield session
        note_change(session, request, await request.json() if await request.body() else None)


class AuditedWrites:
    """Writing transactions of a route that streams, and so opens its own."""

    def __init__(self, request: Request, database: AppDatabase) -> None:
        self._request = request
        self._database = database

    async def write(self, change: Callable[[Session], T]) -> T:
        """Do `change` in a thread and a transaction of its own, note it for the audit, and commit both."""

        def noted(session: Session) -> T:
            done = change(session)
            note_change(session, self._request)
            return done

        return await self._database.write(noted)


async def audited_writes(request: Request, database: AppDatabase) -> AuditedWrites:
    """The request's own."""
    return AuditedWrites(request, database)


Writes = Annotated[AuditedWrites, Depends(audited_writes)]
Reading = Annotated[Session, Depends(_open_reading, scope="function")]
Writing = Annotated[Session, Depends(_open_writing, scope="function")]
