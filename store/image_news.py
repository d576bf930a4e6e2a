"""Tells tenants what becomes of images that they may use."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, select
from sqlmodel import Session

from store.base import table_of
from store.blocked_digests import digest_column
from store.clock import now_us
from store.events import Happened, record_all
from store.tables import Image, ImageTenant, Tenant

_IMAGE, _OF_IMAGE, _TENANT = table_of(Image), table_of(ImageTenant), table_of(Tenant)
_NAMES = select(_IMAGE.c.name).where(digest_column(_IMAGE.c.reference) == bindparam("of")).order_by(_IMAGE.c.name)
_IS_RESTRICTED = select(_IMAGE.c.is_restricted).where(_IMAGE.c.name == bindparam("of"))


def audience(session: Session, name: str) -> frozenset[str]:
    """Every tenant that may use the image; none if there is no such image."""
    connection = session.connection()
    is_restricted = connection.execute(_IS_RESTRICTED, {"of": name}).scalar_one_or_none()
    if is_restricted is None:
        return frozenset()
    if not is_restricted:
        return frozenset(connection.scalars(select(_TENANT.c.id)))
    found = select(_OF_IMAGE.c.tenant_id.label("id")).where(_OF_IMAGE.c.image_name == name).cte(recursive=True)
    found = found.union(select(_TENANT.c.id).where(_TENANT.c.parent_id == found.c.id))
    return frozenset(connection.scalars(select(found.c.id)))


def tell_allowed(session: Session, name: str, before: frozenset[str]) -> None:
    """The image was admitted, or is for others now: tell those that could not use it before."""
    _tell(session, "image_allowed", sorted(audience(session, name) - before), f"the image {name} may be used", name)


def tell_blocked(session: Session, digest: str, reason: str) -> None:
    """A digest was blocked: tell whoever may use it, under each name that it has."""
    for name in session.connection().scalars(_NAMES, {"of": digest}).all():
        text = f"the image {name} is blocked: {reason}"
        _tell(session, "image_blocked", sorted(audience(session, name)), text, name)


def _tell(session: Session, what: str, tenant_ids: Sequence[str], text: str, name: str) -> None:
    data: dict[str, Any] = {"image": name}
    told = [Happened(what, tenant_id=each, text=text, data=data) for each in tenant_ids]
    record_all(session, told, now_us(session))
