"""People's places at tenants and among the platform's admins."""

from collections.abc import Sequence

from sqlalchemy import update
from sqlmodel import Session, col, select

from domain.addresses import spelled
from domain.errors import Conflict, NotFound
from domain.ids import TenantId
from domain.rights import check_place
from domain.roles import Role
from store.clock import now_us
from store.ids import new_id
from store.paging import Position, after
from store.rulers import check_somebody_rules
from store.scopes import reaches
from store.tables import ApiKey, Member


def members(session: Session, owner: TenantId | None, limit: int, start: Position | None) -> Sequence[Member]:
    """The members of a tenant, or (None) the platform's admins, newest first; one more than `limit` if there are."""
    query = select(Member).where(Member.tenant_id == owner if owner else col(Member.tenant_id).is_(None))
    query = query.where(Member.state != "removed")
    if start is not None:
        query = query.where(after(start, col(Member.created_us), col(Member.id)))
    order = (col(Member.created_us).desc(), col(Member.id).desc())
    return session.exec(query.order_by(*order).limit(limit + 1)).all()


def member(session: Session, scope: TenantId | None, member_id: str) -> Member:
    """One member.

    Raises:
        NotFound: there is none, it was removed, or it is outside the scope.
    """
    found = session.get(Member, member_id, with_for_update=True)
    if found is None or found.state == "removed" or not reaches(session, scope, found.tenant_id):
        raise NotFound("member")
    return found


def invite(session: Session, tenant_id: TenantId | None, role: Role, name: str, email: str) -> Member:
    """A place that waits for the person whom the provider knows by that address.

    Raises:
        Conflict: somebody with that address is invited there, or is there.
        Invalid: the role does not go with having a tenant, or with having none.
    """
    check_place(role, tenant_id)
    email = spelled(email)
    place = Member.tenant_id == tenant_id if tenant_id else col(Member.tenant_id).is_(None)
    if session.exec(select(Member.id).where(place, Member.email == email, Member.state != "removed")).first():
        raise Conflict("somebody with that address has a place there already", "change the role of that one")
    made = Member(
        id=new_id("mem"), tenant_id=tenant_id, role=role.value, name=name, email=email, created_us=now_us(session)
    )
    session.add(made)
    session.flush()
    return made


def set_role(session: Session, scope: TenantId | None, member_id: str, role: Role) -> Member:
    """Give the member another role at the same place; keys already made do no more than it allows, at once.

    Raises:
        NotFound: there is no such member within the scope.
        Invalid: the role does not go with the place.
    """
    found = member(session, scope, member_id)
    check_place(role, None if found.tenant_id is None else TenantId(found.tenant_id))
    found.role = role.value
    found.source = "invitation"  # a word of an admin; what the provider claims changes it no more
    session.flush()
    return found


def remove(session: Session, scope: TenantId | None, member_id: str) -> None:
    """End the member's place, its keys and what was made from them, at once.

    Raises:
        NotFound: there is no such member within the scope.
        Conflict: without it, nobody could rule the platform.
    """
    found = member(session, scope, member_id)
    if found.role == Role.PLATFORM_ADMIN:
        check_somebody_rules(session, without_member=member_id)
    end(session, found)


def end(session: Session, found: Member) -> None:
    """The same, of a row in hand."""
    now = now_us(session)
    found.state, found.removed_us = "removed", now
    session.execute(
        update(ApiKey).where(col(ApiKey.member_id) == found.id, col(ApiKey.revoked_us).is_(None)).values(revoked_us=now)
    )
    session.flush()
