"""The catalogue of images."""

from corral.cluster import Empty, ImageSpec, ImageView
from corral.contract import Page
from fastapi import APIRouter
from starlette.responses import Response

from api.auth import AdminCaller, TenantCaller
from api.once import AskedOnce
from api.paging import AskedPage
from api.paths import ImagePath
from api.transactions import Reading, Writing
from api.views.cluster import image_view
from store import images
from store.paging import Position

router = APIRouter(prefix="/images", tags=["images"])


@router.get("")
def list_images(caller: TenantCaller, session: Reading, paging: AskedPage) -> Page[ImageView]:
    """What a job can name, and what it could name before."""
    rows = images.images(session, paging.limit, paging.start_name)
    return paging.page(rows, image_view, lambda row: Position(0, row.name))


@router.post("", status_code=201, response_model=ImageView)
def admit(body: ImageSpec, caller: AdminCaller, session: Writing, once: AskedOnce) -> Response:
    """Admit an image to the catalogue."""
    return once.create(
        session,
        body,
        lambda: image_view(images.admit_image(session, body.name, body.reference, body.min_cuda, body.description)),
    )


@router.post("/{name}/retire")
def retire(name: ImagePath, caller: AdminCaller, session: Writing, body: Empty | None = None) -> ImageView:
    """No new job may name it."""
    return image_view(images.retire_image(session, name))
