"""Who somebody is that a provider vouches for: the places that are theirs, and those that wait for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from domain.errors import Invalid, NotInvited
from domain.ids import TenantId
from domain.roles import Role
from store.clock import now_us
from store.ids import new_id
from store.members import end
from store.tables import Member, Tenant

PLATFORM = "platform"
"""How a person names the place among the platform's admins."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody, as the provider says. Known by issuer and subject; an address may pass from one to another."""

    issuer: str
    subject: str
    name: str
    email: str | None
    """As `domain.addresses` spells it, and only if the provider has verified it."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that the operator's rules give for what the provider claims."""

    tenant: str | None
    """Id or name; None for the platform."""
    role: Role


def place_of(session: Session, person: Person, grants: Sequence[Grant], wanted: str | None) -> Member:
    """Where the person acts from now on: the place named, or the only one.

    Invitations to the person's address become the person's; what was given for claims follows these. Who has a place
    comes to another tenant's only by naming it: by inviting them, no tenant gets between people and their own.

    Raises:
        NotInvited: the person has no place, or none there.
        Invalid: there are several, and none was named.
    """
    _follow_claims(session, person, grants)
    _accept_invitations(session, person, wanted)
    places = _places(session, person)
    if wanted is not None:
        places = [each for each in places if wanted in _names(session, each)]
    if not places:
        raise NotInvited
    if len(places) > 1:
        names = ", ".join(sorted(_names(session, each)[0] for each in places))
        raise Invalid(f"you have a place at several: {names}", "say at which: ?tenant=NAME, or --tenant NAME")
    places[0].name = person.name
    session.flush()
    return places[0]


def _places(session: Session, person: Person) -> list[Member]:
    is_theirs = (Member.issuer == person.issuer, Member.subject == person.subject, Member.state == "active")
    return list(session.exec(select(Member).where(*is_theirs).order_by(col(Member.id)).with_for_update()).all())


def _accept_invitations(session: Session, person: Person, wanted: str | None) -> None:
    if person.email is None:
        return
    is_new = not _places(session, person)
    invited = select(Member).where(Member.state == "invited", Member.email == person.email).with_for_update()
    for invitation in session.exec(invited.order_by(col(Member.id))).all():
        held = next((each for each in _places(session, person) if each.tenant_id == invitation.tenant_id), None)
        if held is not None:
            held.role, held.source = invitation.role, "invitation"
            end(session, invitation)
        elif is_new or wanted in _names(session, invitation):
            invitation.issuer, invitation.subject, invitation.state = person.issuer, person.subject, "active"
        session.flush()


def _follow_claims(session: Session, person: Person, grants: Sequence[Grant]) -> None:
    """Of two grants for one place, the higher counts."""
    given: dict[TenantId | None, Role] = {}
    for grant in grants:
        place = None if grant.tenant is None else _tenant_id(session, grant.tenant)
        if grant.tenant is None or place is not None:
            given[place] = max(given.get(place, grant.role), grant.role, key=lambda role: role.rank)
    for held in _places(session, person):
        role = given.pop(None if held.tenant_id is None else TenantId(held.tenant_id), None)
        if held.source == "claims" and role is None:
            end(session, held)
        elif held.source == "claims" and role is not None:
            held.role = role.value
    for tenant_id, role in given.items():
        session.add(
            Member(
                id=new_id("mem"),
                tenant_id=tenant_id,
                role=role.value,
                name=person.name,
                email=person.email,
                issuer=person.issuer,
                subject=person.subject,
                state="active",
                source="claims",
                created_us=now_us(session),
            )
        )
    session.flush()


def _tenant_id(session: Session, named: str) -> TenantId | None:
    found = session.exec(select(Tenant.id).where((Tenant.id == named) | (Tenant.name == named))).first()
    return None if found is None else TenantId(found)


def _names(session: Session, place: Member) -> tuple[str, ...]:
    if place.tenant_id is None:
        return (PLATFORM,)
    tenant = session.get_one(Tenant, place.tenant_id)
    return tenant.name, tenant.id
