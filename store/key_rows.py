"""The rows of keys: listed, looked for, ended."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, or_, select

from domain.errors import NotFound
from domain.ids import KeyId, MemberId, TenantId
from store.clock import now_us
from store.key_chains import key_chain
from store.paging import Position, after
from store.rulers import check_somebody_rules
from store.scopes import reaches
from store.tables import ApiKey, Job


@dataclass(frozen=True, slots=True)
class Family:
    """What of its tenant's keys a key may see that does not rule the tenant: its own, and those minted from them."""

    key_id: KeyId
    member_id: MemberId | None

    def holds(self, session: Session, key: ApiKey) -> bool:
        """Whether the key belongs here."""
        is_own = self.member_id is not None and key.member_id == self.member_id
        return is_own or self.key_id in key_chain(session, key.id)


def keys(
    session: Session, owner: TenantId | None, family: Family | None, limit: int, start: Position | None
) -> Sequence[ApiKey]:
    """The keys of a tenant, or (None) of the platform's admins, newest first; one more than `limit` if there are."""
    query = select(ApiKey).where(ApiKey.tenant_id == owner if owner else col(ApiKey.tenant_id).is_(None))
    if family is not None:
        own = col(ApiKey.id).in_(below(session, family.key_id))
        query = query.where(own if family.member_id is None else or_(own, col(ApiKey.member_id) == family.member_id))
    if start is not None:
        query = query.where(after(start, col(ApiKey.created_us), col(ApiKey.id)))
    order = (col(ApiKey.created_us).desc(), col(ApiKey.id).desc())
    return session.exec(query.order_by(*order).limit(limit + 1)).all()


def below(session: Session, key_id: KeyId) -> frozenset[KeyId]:
    """The key and all that were minted from it."""
    found: set[KeyId] = set()
    layer = [key_id]
    while layer:
        found.update(layer)
        layer = [KeyId(each) for each in session.exec(select(ApiKey.id).where(col(ApiKey.parent_key_id).in_(layer)))]
    return frozenset(found)


def is_job_of(session: Session, key_id: KeyId, job_id: str) -> bool:
    """Whether the job was submitted with the key, or with one minted from it."""
    submitted_with = session.exec(select(Job.key_id).where(Job.id == job_id)).first()
    return key_id in key_chain(session, submitted_with)


def revoke_key(
    session: Session, scope: TenantId | None, key_id: str, *, of: TenantId | None = None, family: Family | None = None
) -> None:
    """End the key and all that were minted from it, at once. Ending it again changes nothing.

    Raises:
        NotFound: it is outside the scope, not of the tenant `of`, or not of the family.
        Conflict: without it, nobody could rule the platform.
    """
    key = session.get(ApiKey, key_id)
    if key is None or not reaches(session, scope, key.tenant_id) or (of is not None and key.tenant_id != of):
        raise NotFound("key")
    if family is not None and not family.holds(session, key):
        raise NotFound("key")
    if key.revoked_us is None:
        if key.tenant_id is None:
            check_somebody_rules(session, without_key=key_id)
        key.revoked_us = now_us(session)
        session.flush()
