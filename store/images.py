"""The catalogue of images."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, exists, or_, select
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col
from sqlmodel import select as select_rows

from domain.errors import Conflict, Invalid, NotFound
from domain.ids import TenantId
from domain.images import CheckState, ImageState, cuda_version, digest_of, why_not_driven
from domain.levels import ImageKind, Level, runs_at
from store.clock import now_us
from store.events import record
from store.image_checks import ask_for_check
from store.image_news import audience, tell_allowed
from store.locks import tree
from store.tables import Image, ImageBlock, ImageCheck, ImageTenant, Node, Tenant


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where an image could run with GPUs, by the nodes' levels and drivers."""

    able: int
    known: int
    reasons: Sequence[str]
    """Why the others could not, each with how many they are."""


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """A catalogue entry and all that is known of it."""

    image: Image
    state: ImageState
    why: str | None
    """Why it is blocked or refused."""
    check: ImageCheck | None
    tenants: Sequence[str] | None
    """Who may use it; None for everybody."""
    hosts: Hosts


def admit_image(
    session: Session,
    name: str,
    reference: str,
    min_cuda: str | None,
    description: str | None,
    tenants: Sequence[str] | None = None,
) -> Image:
    """Add an image. A retired one of that name is replaced; jobs keep what was admitted when they were submitted.

    A node looks at it as soon as one beats that could run it.

    Raises:
        Conflict: one of that name is admitted.
        Invalid: it is blocked, or a tenant is not there.
    """
    earlier = session.get(Image, name)
    if earlier is not None and earlier.state == "admitted":
        raise Conflict(f"an image {name} is admitted already", "retire it first, or choose another name")
    if (block := session.get(ImageBlock, digest_of(reference))) is not None:
        raise Invalid(f"this image is blocked: {block.reason}", "unblock it first")
    if earlier is not None:
        session.execute(delete(ImageTenant).where(col(ImageTenant.image_name) == name))
        session.delete(earlier)
        session.flush()
    kind = ImageKind.HOST if reference == "host" else ImageKind.ENGINE
    image = Image(
        name=name,
        kind=kind,
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
    _set_tenants(session, image, tenants)
    if kind is ImageKind.ENGINE:
        ask_for_check(session, reference)
    record(session, "image_admitted", text=name, data={"reference": reference})
    tell_allowed(session, name, frozenset())
    return image


def retire_image(session: Session, name: str) -> Image:
    """No new job may name it; jobs that wait or run keep it.

    Raises:
        NotFound: there is none of that name.
    """
    image = image_by_name(session, name)
    if image.state != "retired":
        image.state = "retired"
        session.flush()
        record(session, "image_retired", text=name)
    return image


def allow_image(session: Session, name: str, tenants: Sequence[str] | None) -> Image:
    """Let these tenants, and those below them, use it, and nobody else; None for everybody.

    Raises:
        NotFound: there is none of that name.
        Invalid: a tenant is not there.
    """
    image, before = image_by_name(session, name), audience(session, name)
    _set_tenants(session, image, tenants)
    tell_allowed(session, name, before)
    record(session, "image_allowed", text=name, data={"tenants": None if tenants is None else list(tenants)})
    return image


def image_by_name(session: Session, name: str) -> Image:
    """For an admin.

    Raises:
        NotFound: there is none of that name.
    """
    image = session.get(Image, name)
    if image is None:
        raise NotFound("image")
    return image


def engine_image(session: Session, name: str) -> Image:
    """One that a node can look at.

    Raises:
        NotFound: there is none of that name.
        Invalid: it is the nodes' own files.
    """
    image = image_by_name(session, name)
    if image.kind != ImageKind.ENGINE:
        raise Invalid("the nodes' own files are no image that could be looked at")
    return image


def images(session: Session, scope: TenantId | None, limit: int, start: str | None) -> list[ImageRecord]:
    """The catalogue as the tenant may see it, by name; one more than `limit` if there are."""
    query = select_rows(Image)
    if scope is not None:
        query = query.where(or_(col(Image.is_restricted).is_(False), _is_allowed(session, scope)))
    if start is not None:
        query = query.where(col(Image.name) > start)
    return records(session, session.exec(query.order_by(col(Image.name)).limit(limit + 1)).all())


def image_record(session: Session, scope: TenantId | None, name: str) -> ImageRecord:
    """One entry.

    Raises:
        NotFound: there is none of that name, or it is not for this tenant.
    """
    image = image_by_name(session, name)
    if scope is not None and not _may_see(session, scope, image):
        raise NotFound("image")
    return records(session, [image])[0]


def records(session: Session, found: Sequence[Image]) -> list[ImageRecord]:
    """Entries with all that is known of them."""
    names, references = [image.name for image in found], [image.reference for image in found]
    checks = {
        check.reference: check
        for check in session.exec(select_rows(ImageCheck).where(col(ImageCheck.reference).in_(references)))
    }
    digests = [digest_of(reference) for reference in references]
    blocks = {
        block.digest: block.reason
        for block in session.exec(select_rows(ImageBlock).where(col(ImageBlock.digest).in_(digests)))
    }
    tenants: dict[str, list[str]] = {name: [] for name in names}
    for row in session.exec(select_rows(ImageTenant).where(col(ImageTenant.image_name).in_(names))):
        tenants[row.image_name].append(row.tenant_id)
    nodes = session.exec(select_rows(Node).where(Node.state != "lost")).all()
    return [
        _record(image, checks.get(image.reference), blocks.get(digest_of(image.reference)), tenants[image.name], nodes)
        for image in found
    ]


def _record(
    image: Image, check: ImageCheck | None, blocked_for: str | None, tenants: Sequence[str], nodes: Sequence[Node]
) -> ImageRecord:
    state, why = ImageState(image.state), None
    if blocked_for is not None:
        state, why = ImageState.BLOCKED, blocked_for
    elif state is ImageState.ADMITTED and check is not None and check.state != CheckState.GOOD:
        is_refused = check.state == CheckState.REFUSED
        state = ImageState.REFUSED if is_refused else ImageState.CHECKING
        why = "; ".join(check.refusals) if is_refused else check.trouble
    return ImageRecord(image, state, why, check, sorted(tenants) if image.is_restricted else None, _hosts(image, nodes))


def _hosts(image: Image, nodes: Sequence[Node]) -> Hosts:
    whys = [_why_not(image, node) for node in nodes]
    counts = Counter(why for why in whys if why is not None)
    told = [f"{count} {'node' if count == 1 else 'nodes'}: {why}" for why, count in sorted(counts.items())]
    return Hosts(whys.count(None), len(nodes), told)


def _why_not(image: Image, node: Node) -> str | None:
    if not any(runs_at(ImageKind(image.kind), Level(level)) for level in node.levels):
        return "no level at which it runs"
    cuda = cuda_version(image.min_cuda or "")
    return None if cuda is None else why_not_driven(cuda, node.driver_version, node.cuda_driver)


def _set_tenants(session: Session, image: Image, tenants: Sequence[str] | None) -> None:
    image.is_restricted = tenants is not None
    wanted = sorted(set(tenants or ()))
    known = set(session.exec(select_rows(Tenant.id).where(col(Tenant.id).in_(wanted))).all()) if wanted else set()
    for tenant_id in wanted:
        if tenant_id not in known:
            raise Invalid(f"there is no tenant {tenant_id}", "see GET /v1/tenants")
    session.execute(delete(ImageTenant).where(col(ImageTenant.image_name) == image.name))
    session.add_all(ImageTenant(image_name=image.name, tenant_id=tenant_id) for tenant_id in wanted)
    session.flush()


def _may_see(session: Session, tenant_id: TenantId, image: Any) -> bool:
    """Whether it is for everybody, for this tenant, or for one above it."""
    if not image.is_restricted:
        return True
    query = select(ImageTenant.tenant_id).where(  # type: ignore[call-overload]
        col(ImageTenant.image_name) == image.name, col(ImageTenant.tenant_id).in_(tree(session, tenant_id))
    )
    return session.execute(query.limit(1)).first() is not None


def _is_allowed(session: Session, tenant_id: TenantId) -> Any:
    allowed = select_rows(ImageTenant.tenant_id).where(
        col(ImageTenant.image_name) == Image.name, col(ImageTenant.tenant_id).in_(tree(session, tenant_id))
    )
    return exists(allowed)
