"""The catalogue of images."""

from corral.cluster import Empty
from corral.contract import Page
from corral.images import ImageBlockSpec, ImageSpec, ImageTenants, ImageView
from fastapi import APIRouter
from sqlmodel import Session
from starlette.responses import Response

from api.after_commit import Tell
from api.auth import AdminCaller, TenantCaller
from api.once import AskedOnce
from api.paging import AskedPage
from api.paths import ImagePath
from api.transactions import Reading, Writing
from api.views.images import image_view
from store import image_blocks, image_checks, images
from store.paging import Position

router = APIRouter(prefix="/images", tags=["images"])


@router.get("")
def list_images(caller: TenantCaller, session: Reading, paging: AskedPage) -> Page[ImageView]:
    """What a job can name, and what it could name before."""
    rows = images.images(session, caller.scope, paging.limit, paging.start_name)
    return paging.page(rows, lambda row: image_view(row, caller.is_admin), lambda row: Position(0, row.image.name))


@router.get("/{name}")
def show(name: ImagePath, caller: TenantCaller, session: Reading) -> ImageView:
    """One entry, with what a node found in it and where it could run."""
    return image_view(images.image_record(session, caller.scope, name), caller.is_admin)


@router.post("", status_code=201, response_model=ImageView)
def admit(body: ImageSpec, caller: AdminCaller, session: Writing, once: AskedOnce) -> Response:
    """Admit an image to the catalogue; a node that could run it looks at it then."""

    def make() -> ImageView:
        images.admit_image(session, body.name, body.reference, body.min_cuda, body.description, body.tenants)
        return _view(session, body.name)

    return once.create(session, body, make)


@router.post("/{name}/retire")
def retire(name: ImagePath, caller: AdminCaller, session: Writing, body: Empty | None = None) -> ImageView:
    """No new job may name it."""
    images.retire_image(session, name)
    return _view(session, name)


@router.post("/{name}/block")
def block(name: ImagePath, body: ImageBlockSpec, caller: AdminCaller, session: Writing, tell: Tell) -> ImageView:
    """Its digest starts nowhere any more, under whatever name; what waits for it says why."""
    reference = images.image_by_name(session, name).reference
    hints, jobs = image_blocks.block(session, reference, body.reason, body.stop)
    for hint in hints:
        tell.stop(hint)
    for job_id in jobs:
        tell.changed(job_id)
    tell.wake()
    return _view(session, name)


@router.post("/{name}/unblock")
def unblock(name: ImagePath, caller: AdminCaller, session: Writing, tell: Tell, body: Empty | None = None) -> ImageView:
    """Its digest may start again."""
    image_blocks.unblock(session, images.image_by_name(session, name).reference)
    tell.wake()
    return _view(session, name)


@router.put("/{name}/tenants")
def allow(name: ImagePath, body: ImageTenants, caller: AdminCaller, session: Writing) -> ImageView:
    """Set who may see and use it. Jobs that were submitted before keep it."""
    images.allow_image(session, name, body.tenants)
    return _view(session, name)


@router.post("/{name}/check")
def check(name: ImagePath, caller: AdminCaller, session: Writing, body: Empty | None = None) -> ImageView:
    """Let a node look at it once more."""
    image_checks.ask_for_check(session, images.engine_image(session, name).reference)
    return _view(session, name)


def _view(session: Session, name: str) -> ImageView:
    return image_view(images.image_record(session, None, name), is_admin=True)
