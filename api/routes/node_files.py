"""The bytes that a node's worker brings and fetches: logs, artifacts, inputs. No log post writes to the database."""

from typing import Annotated

import anyio
from corral.contract import Sha256
from corral.jobs import ArtifactView
from corral.node import LogAnswer
from fastapi import APIRouter, Query, Request
from sqlmodel import Session
from starlette.responses import Response, StreamingResponse

from api.after_commit import Tell
from api.auth import NodeCaller
from api.parts import AppLogs, AppSettings, AppStorage
from api.paths import ID_PATTERN, AttemptPath, InputPath
from api.places import artifact_place, input_place
from api.storage import Upload
from api.transactions import AppDatabase
from api.uploads import receive, receive_small
from api.views.jobs import artifact_view
from domain.errors import Invalid
from domain.ids import NodeId
from store.artifacts import Writable, keep_artifact, room_left, same_artifact, writable
from store.inputs import stored_for_node

router = APIRouter(prefix="/node", tags=["node"])

BYTES = {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}
NAME_BYTES_MAX = 4096
Fence = Annotated[int, Query(ge=0, le=2**62)]


@router.post("/attempts/{attempt_id}/logs", openapi_extra=BYTES)
async def append_log(
    request: Request,
    attempt_id: AttemptPath,
    node_id: NodeCaller,
    database: AppDatabase,
    logs: AppLogs,
    settings: AppSettings,
    tell: Tell,
    fence: Fence,
    offset: Annotated[int, Query(ge=0, le=2**62)],
) -> LogAnswer:
    """Add a stretch of the log. What is held already is left out; what begins beyond it is refused (`log_gap`)."""
    attempt = await database.read(lambda session: writable(session, node_id, attempt_id, fence))
    data = await receive_small(request, settings.log_post_bytes_max, settings.chunk_seconds)
    held = await anyio.to_thread.run_sync(logs.append, attempt_id, offset, data)
    tell.changed(attempt.job_id)
    return LogAnswer(size_bytes=held)


@router.post("/attempts/{attempt_id}/artifacts", openapi_extra=BYTES)
async def store_artifact(
    request: Request,
    attempt_id: AttemptPath,
    node_id: NodeCaller,
    database: AppDatabase,
    storage: AppStorage,
    settings: AppSettings,
    fence: Fence,
    name: Annotated[str, Query(min_length=1, max_length=NAME_BYTES_MAX)],
    sha256: Annotated[Sha256, Query()],
) -> ArtifactView:
    """Store a file that the attempt left. Storing it again changes nothing."""
    _check_name(name)
    room = await database.read(
        lambda session: _room(session, node_id, attempt_id, fence, name, sha256, settings.artifacts_max)
    )
    upload = await anyio.to_thread.run_sync(storage.upload, min(room, settings.artifact_bytes_max))
    try:
        arrived = await receive(request, upload, settings.chunk_seconds)
        if arrived.sha256 != sha256:
            raise Invalid("the bytes are not those of the hash")
        await anyio.to_thread.run_sync(upload.keep, artifact_place(attempt_id, sha256))
        return await database.write(
            lambda session: artifact_view(
                keep_artifact(session, writable(session, node_id, attempt_id, fence), name, arrived.size_bytes, sha256)
            )
        )
    finally:
        await _close(upload)


@router.get("/inputs/{sha256}", response_class=Response, responses={200: {"content": {"application/x-tar": {}}}})
async def fetch_input(
    sha256: InputPath,
    node_id: NodeCaller,
    database: AppDatabase,
    storage: AppStorage,
    attempt_id: Annotated[str, Query(pattern=ID_PATTERN)],
) -> Response:
    """An input, for the node of a live attempt that names it, and for nobody else."""
    held = await database.read(lambda session: stored_for_node(session, node_id, attempt_id, sha256))
    headers = {"Content-Length": str(held.size_bytes)}
    content = storage.chunks(input_place(held.tenant_id, sha256), 0, held.size_bytes)
    return StreamingResponse(content, media_type="application/x-tar", headers=headers)


def _room(
    session: Session, node_id: NodeId, attempt_id: str, fence: int, name: str, sha256: str, artifacts_max: int
) -> int:
    """Bytes that the file may have. One that is sent again may have what it has."""
    attempt: Writable = writable(session, node_id, attempt_id, fence)
    held = same_artifact(session, attempt_id, name, sha256)
    return held.size_bytes if held is not None else room_left(session, attempt, artifacts_max)


def _check_name(name: str) -> None:
    """A relative path, as a tenant's program may name files, and nothing that could forge a line or leave a folder."""
    parts = name.split("/")
    if "" in parts or "." in parts or ".." in parts or len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise Invalid("an artifact's name is a plain relative path")
    if any(char < " " or char == "\x7f" or "\ud800" <= char <= "\udfff" for char in name):
        raise Invalid("an artifact's name holds a control character")


async def _close(upload: Upload) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(upload.close)
