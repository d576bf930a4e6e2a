"""Whether this process lives, and whether it can serve. Open to all, and telling nothing else."""

import anyio
from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from api.parts import AppStorage
from api.transactions import AppDatabase, Database
from store.health import DATABASE_AWAY
from store.migrate import is_current

router = APIRouter(tags=["health"])

READY_SECONDS = 5


class Health(BaseModel):
    """A short word."""

    status: str


@router.get("/healthz")
async def healthz() -> Health:
    """This process answers. It asks nobody else."""
    return Health(status="ok")


async def _ready(database: AppDatabase, storage: AppStorage) -> None:
    try:
        with anyio.fail_after(READY_SECONDS):
            is_ready = await anyio.to_thread.run_sync(_is_ready, database, abandon_on_cancel=True)
            has_storage = await anyio.to_thread.run_sync(storage.is_answering, abandon_on_cancel=True)
    except TimeoutError:
        raise HTTPException(503, "the database or the storage does not answer in time") from None
    if not is_ready:
        raise HTTPException(503, "the database cannot be reached, or is not migrated")
    if not has_storage:
        raise HTTPException(503, "the storage cannot be reached")


@router.get("/readyz", dependencies=[Depends(_ready)])
async def readyz() -> Health:
    """Database and storage answer, and the former is migrated to what this version knows."""
    return Health(status="ready")


def _is_ready(database: Database) -> bool:
    try:
        return is_current(database.engine)
    except DATABASE_AWAY:
        return False
