"""What a job left."""

from collections.abc import Iterator
from urllib.parse import quote

from corral.contract import Page
from corral.jobs import ArtifactView
from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from api.auth import TenantCaller
from api.paging import AskedPage
from api.parts import AppStorage
from api.paths import ArtifactPath, JobPath
from api.places import place_of
from api.storage import CHUNK_BYTES, Storage
from api.transactions import Reading
from api.views.jobs import artifact_view
from store import artifacts
from store.paging import Position

router = APIRouter(prefix="/jobs", tags=["artifacts"])


@router.get("/{job_id}/artifacts")
def list_artifacts(job_id: JobPath, caller: TenantCaller, session: Reading, paging: AskedPage) -> Page[ArtifactView]:
    """The files that the job left, in the order of their arrival."""
    rows = artifacts.artifacts(session, caller.scope, job_id, paging.limit, paging.start)
    return paging.page(rows, artifact_view, lambda row: Position(0, row.id))


@router.get(
    "/{job_id}/artifacts/{name:path}",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
def artifact(
    job_id: JobPath, name: ArtifactPath, caller: TenantCaller, session: Reading, storage: AppStorage
) -> Response:
    """A file's bytes; of several attempts' files of that name, the newest."""
    found = artifacts.artifact_named(session, caller.scope, job_id, name)
    headers = {
        "Content-Length": str(found.size_bytes),
        "Content-Disposition": _disposition(name),
        "ETag": f'"{found.sha256}"',
    }
    content = _content(storage, place_of(found), found.size_bytes)
    return StreamingResponse(content, media_type="application/octet-stream", headers=headers)


def _content(storage: Storage, name: str, size_bytes: int) -> Iterator[bytes]:
    for begin in range(0, size_bytes, CHUNK_BYTES):
        yield storage.read(name, begin, begin + CHUNK_BYTES)


def _disposition(name: str) -> str:
    """Always a download, under a name that can neither end the header nor leave the folder it is saved in."""
    last = name.rsplit("/", 1)[-1]
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in last)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(last, safe='')}"
