"""Inputs: a tar stream, kept under its hash."""

import anyio
from corral.jobs import InputView
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from api.auth import ActiveCaller
from api.once import AskedOnce
from api.parts import AppSettings, AppStorage
from api.paths import TenantQuery
from api.places import input_place
from api.storage import Storage, Upload
from api.tar_check import check_tar
from api.transactions import Writes
from api.uploads import receive
from api.views.jobs import input_view
from store.inputs import keep_input

router = APIRouter(prefix="/inputs", tags=["inputs"])

TAR = ("application/x-tar", "application/octet-stream")


@router.post(
    "",
    status_code=201,
    response_model=InputView,
    openapi_extra={"requestBody": {"required": True, "content": {"application/x-tar": {}}}},
)
async def store_input(
    request: Request,
    caller: ActiveCaller,
    writes: Writes,
    storage: AppStorage,
    settings: AppSettings,
    once: AskedOnce,
    tenant_id: TenantQuery = None,
) -> Response:
    """Store a plain tar of files and directories. Storing the same bytes again gives the same answer."""
    owner = caller.acting_for(tenant_id)
    if request.headers.get("content-type", "").split(";")[0].strip().lower() not in TAR:
        raise HTTPException(415, "an input is application/x-tar")
    upload = await anyio.to_thread.run_sync(storage.upload, settings.input_bytes_max)
    try:
        arrived = await receive(request, upload, settings.chunk_seconds)
        name = input_place(owner, arrived.sha256)
        await anyio.to_thread.run_sync(_check_and_keep, storage, upload, name, arrived.size_bytes, settings)
        return await writes.write(
            lambda session: once.create_for(
                session,
                arrived.sha256,
                lambda: input_view(keep_input(session, owner, arrived.sha256, arrived.size_bytes)),
            )
        )
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(upload.close)


def _check_and_keep(storage: Storage, upload: Upload, name: str, size_bytes: int, settings: AppSettings) -> None:
    with upload.reopened() as stream:
        check_tar(stream, size_bytes, settings.input_members_max)
    if not storage.exists(name):
        upload.keep(name)
