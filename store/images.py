"""The catalogue of images."""

from collections.abc import Sequence

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from domain.errors import Conflict, NotFound
from domain.levels import ImageKind
from store.clock import now_us
from store.events import record
from store.tables import Image


def admit_image(session: Session, name: str, reference: str, min_cuda: str | None, description: str | None) -> Image:
    """Add an image. A retired one of that name is replaced; jobs keep what was admitted when they were submitted.

    Raises:
        Conflict: one of that name is admitted.
    """
    earlier = session.get(Image, name)
    if earlier is not None and earlier.state == "admitted":
        raise Conflict(f"an image {name} is admitted already", "retire it first, or choose another name")
    if earlier is not None:
        session.delete(earlier)
        session.flush()
    image = Image(
        name=name,
        kind=ImageKind.HOST if reference == "host" else ImageKind.ENGINE,
        reference=reference,
        min_cuda=min_cuda,
        description=description,
        created_us=now_us(session),
    )
    try:
        with session.begin_nested():
            session.add(image)
    except IntegrityError:
        raise Conflict(f"an image {name} is admitted already") from None
    record(session, "image_admitted", text=name, data={"reference": reference})
    return image


def retire_image(session: Session, name: str) -> Image:
    """No new job may name it; jobs that wait or run keep it.

    Raises:
        NotFound: there is none of that name.
    """
    image = session.get(Image, name)
    if image is None:
        raise NotFound("image")
    if image.state != "retired":
        image.state = "retired"
        session.flush()
        record(session, "image_retired", text=name)
    return image


def images(session: Session, limit: int, start: str | None) -> Sequence[Image]:
    """The catalogue, by name; one more than `limit` if there are."""
    query = select(Image)
    if start is not None:
        query = query.where(col(Image.name) > start)
    return session.exec(query.order_by(col(Image.name)).limit(limit + 1)).all()
