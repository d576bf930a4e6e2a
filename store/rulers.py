"""That somebody can always rule the platform: an unbounded key of its own, or a member who has logged in."""

from sqlmodel import Session, col, or_, select

from domain.errors import Conflict
from domain.roles import Role
from store.clock import now_us
from store.tables import ApiKey, Member


def check_somebody_rules(session: Session, *, without_key: str = "", without_member: str = "") -> None:
    """Refuse what would leave nobody. The rows are held until the transaction's end, so that two cannot leave together.

    Raises:
        Conflict: nobody would be left.
    """
    found = session.exec(
        select(ApiKey)
        .where(
            ApiKey.role == Role.PLATFORM_ADMIN,
            col(ApiKey.member_id).is_(None),
            col(ApiKey.parent_key_id).is_(None),
            col(ApiKey.revoked_us).is_(None),
            or_(col(ApiKey.expires_us).is_(None), col(ApiKey.expires_us) > now_us(session)),
        )
        .order_by(col(ApiKey.id))
        .with_for_update()
    ).all()
    keys = [key.id for key in found if key.scopes is None]
    members = session.exec(
        select(Member.id)
        .where(Member.role == Role.PLATFORM_ADMIN, Member.state == "active")
        .order_by(col(Member.id))
        .with_for_update()
    ).all()
    leaves = without_key in keys or without_member in members
    if leaves and not ({*keys, *members} - {without_key, without_member}):
        raise Conflict("this is the last that rules the platform", "make another admin key first")
