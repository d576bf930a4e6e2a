"""Credentials of people and programs. Only the hash of a secret is kept, and it is compared in constant time."""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import bindparam, update
from sqlalchemy import select as select_columns
from sqlmodel import Session, col, or_, select

from domain.errors import Conflict, NotFound, Unauthenticated
from domain.ids import KeyId, TenantId
from store.base import table_of
from store.clock import now_us
from store.ids import new_id
from store.locks import tree
from store.paging import Position, after
from store.tables import ApiKey, Tenant

MARK = "corral"
USED_COARSELY_US = 60_000_000
"""`last_used` is written at most this often."""
_NOBODY = hashlib.sha256(b"").hexdigest()
"""Compared with when no key has the prefix, so that a wrong prefix takes as long as a wrong secret."""

_KEY, _TENANT = table_of(ApiKey), table_of(Tenant)
_BY_PREFIX = (
    select_columns(*_KEY.c, _TENANT.c.name.label("tenant_name"))
    .select_from(_KEY.outerjoin(_TENANT))
    .where(_KEY.c.prefix == bindparam("of"))
)
_STATE = select_columns(_TENANT.c.state).where(_TENANT.c.id == bindparam("of"))


class _Validity(Protocol):
    """What decides whether a key counts."""

    revoked_us: int | None
    expires_us: int | None


@dataclass(frozen=True, slots=True)
class Principal:
    """Whose key it is, as it stood when it was shown."""

    key_id: KeyId
    role: str
    tenant_id: TenantId | None
    """None for an admin of the platform."""
    tenant_name: str | None
    is_suspended: bool
    """The tenant, or one above it."""
    is_use_due: bool
    """Whether its use was last noted so long ago that it should be again."""


def authenticate(session: Session, text: str) -> Principal:
    """Whose key `corral_<prefix>_<secret>` is.

    Raises:
        Unauthenticated: nobody's, a revoked one's or an expired one's; which of these is not told.
    """
    mark, prefix, secret = [*text.split("_", 2), "", ""][:3]
    key = session.connection().execute(_BY_PREFIX, {"of": prefix}).first() if prefix.isascii() else None
    is_right = hmac.compare_digest(_hash(secret), key.secret_sha256 if key else _NOBODY)
    if key is None or mark != MARK or not is_right or not _is_valid(key, now := now_us(session)):
        raise Unauthenticated
    return Principal(
        KeyId(key.id),
        key.role,
        None if key.tenant_id is None else TenantId(key.tenant_id),
        key.tenant_name,
        key.tenant_id is not None and is_suspended(session, key.tenant_id),
        key.last_used_us is None or now - key.last_used_us >= USED_COARSELY_US,
    )


def is_valid(session: Session, key_id: KeyId) -> bool:
    """Whether the key still counts."""
    key = session.get(ApiKey, key_id, populate_existing=True)
    return key is not None and _is_valid(key, now_us(session))


def is_suspended(session: Session, tenant_id: str) -> bool:
    """Whether the tenant or one above it is suspended."""
    states = (session.connection().execute(_STATE, {"of": each}).scalar_one() for each in tree(session, tenant_id))
    return any(state != "active" for state in states)


def note_use(session: Session, key_id: KeyId) -> None:
    """Write down that the key was used, unless that was done within the last minute."""
    now = now_us(session)
    session.execute(
        update(ApiKey)
        .where(
            col(ApiKey.id) == key_id,
            or_(col(ApiKey.last_used_us).is_(None), col(ApiKey.last_used_us) <= now - USED_COARSELY_US),
        )
        .values(last_used_us=now)
    )


def mint_key(
    session: Session, tenant_id: TenantId | None, name: str, expires_us: int | None = None
) -> tuple[ApiKey, str]:
    """A new key, and its text, which is not kept: of a tenant, or (None) of an admin of the platform.

    Raises:
        NotFound: there is no such tenant.
    """
    if tenant_id is not None and session.get(Tenant, tenant_id) is None:
        raise NotFound("tenant")
    prefix, secret = secrets.token_hex(6), secrets.token_hex(32)
    key = ApiKey(
        id=new_id("key"),
        tenant_id=tenant_id,
        name=name,
        prefix=prefix,
        secret_sha256=_hash(secret),
        role="admin" if tenant_id is None else "tenant",
        created_us=now_us(session),
        expires_us=expires_us,
    )
    session.add(key)
    session.flush()
    return key, f"{MARK}_{prefix}_{secret}"


def keys(session: Session, owner: TenantId | None, limit: int, start: Position | None) -> Sequence[ApiKey]:
    """The keys of a tenant, or (None) of the platform's admins, newest first; one more than `limit` if there are."""
    query = select(ApiKey).where(ApiKey.tenant_id == owner if owner else col(ApiKey.tenant_id).is_(None))
    if start is not None:
        query = query.where(after(start, col(ApiKey.created_us), col(ApiKey.id)))
    order = (col(ApiKey.created_us).desc(), col(ApiKey.id).desc())
    return session.exec(query.order_by(*order).limit(limit + 1)).all()


def revoke_key(session: Session, owner: TenantId | None, key_id: str) -> None:
    """End the key of that owner (None: an admin's), at once. Ending it again changes nothing.

    Raises:
        NotFound: it is not that owner's.
        Conflict: it is the last admin's key that counts, without which nobody could rule the platform.
    """
    key = session.get(ApiKey, key_id)
    if key is None or key.tenant_id != owner:
        raise NotFound("key")
    if key.revoked_us is not None:
        return
    if owner is None and not _has_other_admin(session, key_id):
        raise Conflict("this is the last admin key", "make another one first")
    key.revoked_us = now_us(session)
    session.flush()


def _has_other_admin(session: Session, key_id: str) -> bool:
    others = session.exec(select(ApiKey).where(ApiKey.role == "admin", ApiKey.id != key_id).with_for_update())
    now = now_us(session)
    return any(_is_valid(each, now) for each in others)


def _is_valid(key: _Validity, now: int) -> bool:
    return key.revoked_us is None and (key.expires_us is None or now < key.expires_us)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
