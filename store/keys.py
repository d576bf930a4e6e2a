"""Credentials of people and programs. Only the hash of a secret is kept, and it is compared in constant time."""

import hashlib
import hmac
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, update
from sqlalchemy import select as select_columns
from sqlmodel import Session, col, or_

from domain.errors import NotFound, Unauthenticated
from domain.ids import KeyId, MemberId, TenantId
from domain.rights import Rights
from domain.roles import Role, lower
from store.base import table_of
from store.clock import now_us
from store.ids import new_id
from store.locks import tree
from store.tables import ApiKey, Member, Tenant

MARK = "corral"
USED_COARSELY_US = 60_000_000
"""`last_used` is written at most this often."""
_NOBODY = hashlib.sha256(b"").hexdigest()
"""Compared with when no key has the prefix, so that a wrong prefix takes as long as a wrong secret."""

_Row = Any
"""A row of `_KEYS`."""
_KEY, _TENANT, _MEMBER = table_of(ApiKey), table_of(Tenant), table_of(Member)
_KEYS = select_columns(
    *_KEY.c,
    _TENANT.c.name.label("tenant_name"),
    _MEMBER.c.name.label("member_name"),
    _MEMBER.c.state.label("member_state"),
    _MEMBER.c.role.label("member_role"),
).select_from(
    _KEY.outerjoin(_TENANT, _TENANT.c.id == _KEY.c.tenant_id).outerjoin(_MEMBER, _MEMBER.c.id == _KEY.c.member_id)
)
_BY_PREFIX = _KEYS.where(_KEY.c.prefix == bindparam("of"))
_BY_ID = _KEYS.where(_KEY.c.id == bindparam("of"))
_STATE = select_columns(_TENANT.c.state).where(_TENANT.c.id == bindparam("of"))


@dataclass(frozen=True, slots=True)
class Principal:
    """Whose key it is, as it stood when it was shown."""

    key_id: KeyId
    member_id: MemberId | None
    parent_key_id: KeyId | None
    rights: Rights
    tenant_name: str | None
    member_name: str | None
    is_suspended: bool
    """The tenant, or one above it."""
    is_use_due: bool
    """Whether its use was last noted so long ago that it should be again."""


def authenticate(session: Session, text: str) -> Principal:
    """Whose key `corral_<prefix>_<secret>` is.

    Raises:
        Unauthenticated: nobody's, or one that ended: by itself, with the key that minted it, or with its member. Which
            of these it is is not told.
    """
    mark, prefix, secret = [*text.split("_", 2), "", ""][:3]
    key = session.connection().execute(_BY_PREFIX, {"of": prefix}).first() if prefix.isascii() else None
    is_right = hmac.compare_digest(hash_secret(secret), key.secret_sha256 if key else _NOBODY)
    if key is None or mark != MARK or not is_right:
        raise Unauthenticated
    now = now_us(session)
    role = _role_of_chain(session, key, now)
    if role is None:
        raise Unauthenticated
    return Principal(
        KeyId(key.id),
        None if key.member_id is None else MemberId(key.member_id),
        None if key.parent_key_id is None else KeyId(key.parent_key_id),
        rights_of(key, role),
        key.tenant_name,
        key.member_name,
        key.tenant_id is not None and is_suspended(session, key.tenant_id),
        key.last_used_us is None or now - key.last_used_us >= USED_COARSELY_US,
    )


def rights_of(key: Any, role: Role) -> Rights:
    """What the row of a key says, with the role that counts now."""
    return Rights(
        role,
        None if key.tenant_id is None else TenantId(key.tenant_id),
        None if key.scopes is None else frozenset(key.scopes),
        None if key.images is None else tuple(key.images),
        None if key.levels is None else tuple(key.levels),
        key.own_jobs_only,
        key.expires_us,
    )


def mint_key(
    session: Session, tenant_id: TenantId | None, name: str, expires_us: int | None = None
) -> tuple[ApiKey, str]:
    """A key with all rights over a tenant, or (None) over the platform.

    Raises:
        NotFound: there is no such tenant.
    """
    role = Role.PLATFORM_ADMIN if tenant_id is None else Role.TENANT_ADMIN
    return mint(session, name, Rights(role, tenant_id, expires_us=expires_us))


def mint(
    session: Session,
    name: str,
    rights: Rights,
    member_id: MemberId | None = None,
    parent_key_id: KeyId | None = None,
) -> tuple[ApiKey, str]:
    """A new key, and its text, which is not kept. Whether its maker may give such rights was checked.

    Raises:
        NotFound: there is no such tenant.
    """
    if rights.tenant_id is not None and session.get(Tenant, rights.tenant_id) is None:
        raise NotFound("tenant")
    prefix, secret = secrets.token_hex(6), secrets.token_hex(32)
    key = ApiKey(
        id=new_id("key"),
        tenant_id=rights.tenant_id,
        name=name,
        prefix=prefix,
        secret_sha256=hash_secret(secret),
        role=rights.role.value,
        member_id=member_id,
        parent_key_id=parent_key_id,
        scopes=None if rights.scopes is None else sorted(rights.scopes),
        images=None if rights.images is None else list(rights.images),
        levels=None if rights.levels is None else list(rights.levels),
        own_jobs_only=rights.own_jobs_only,
        created_us=now_us(session),
        expires_us=rights.expires_us,
    )
    session.add(key)
    session.flush()
    return key, f"{MARK}_{prefix}_{secret}"


def is_valid(session: Session, key_id: KeyId) -> bool:
    """Whether the key still counts."""
    key = session.connection().execute(_BY_ID, {"of": key_id}).first()
    return key is not None and _role_of_chain(session, key, now_us(session)) is not None


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


def hash_secret(secret: str) -> str:
    """What is kept of a secret: it has 256 random bits, so nobody finds it by trying."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _role_of_chain(session: Session, key: _Row, now: int) -> Role | None:
    """The role that counts: the least of the key's, its makers' and their members'; None if one of them ended."""
    role = Role(key.role)
    for each in _upward(session, key):
        if each.revoked_us is not None or (each.expires_us is not None and each.expires_us <= now):
            return None
        role = lower(role, Role(each.role))
        if each.member_id is not None:
            if each.member_state != "active":
                return None
            role = lower(role, Role(each.member_role))
    return role


def _upward(session: Session, key: _Row) -> Iterator[_Row]:
    yield key
    while key.parent_key_id is not None:
        key = session.connection().execute(_BY_ID, {"of": key.parent_key_id}).one()
        yield key
