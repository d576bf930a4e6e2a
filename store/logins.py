"""Logins on their way: each is good for minutes, for the browser that began it, and once."""

import base64
import hashlib
import hmac
from dataclasses import dataclass

from sqlalchemy import delete, update
from sqlmodel import Session, col, func, select

from domain.errors import Limit, LoginOver
from domain.ids import MemberId, TenantId
from domain.rights import Rights
from domain.roles import Role
from store.clock import now_us
from store.ids import new_id
from store.keys import hash_secret, mint
from store.tables import ApiKey, Login, Member

VALID_US = 600_000_000
CODE_VALID_US = 120_000_000
OPEN_MAX = 10_000
"""Anybody can begin one: a bound on how many are kept."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What the way back needs."""

    id: str
    nonce: str
    verifier: str
    tenant: str | None
    challenge: str | None


def begin(
    session: Session, state: str, browser: str, nonce: str, verifier: str, tenant: str | None, challenge: str | None
) -> None:
    """Keep what the way back needs; of what the browser must show, only the hash.

    Raises:
        Limit: too many are under way.
    """
    now = now_us(session)
    session.execute(delete(Login).where(col(Login.expires_us) <= now))
    if session.exec(select(func.count()).select_from(Login)).one() >= OPEN_MAX:
        raise Limit("too many logins are under way", "try again in some minutes")
    session.add(
        Login(
            id=new_id("log"),
            state_sha256=hash_secret(state),
            browser_sha256=hash_secret(browser),
            nonce=nonce,
            verifier=verifier,
            tenant=tenant,
            challenge=challenge,
            created_us=now,
            expires_us=now + VALID_US,
        )
    )
    session.flush()


def take(session: Session, state: str, browser: str) -> Begun:
    """The login that comes back. It cannot come back again.

    Raises:
        LoginOver: it is unknown, over, another browser's, or came back already.
    """
    taken = session.execute(
        update(Login)
        .where(
            col(Login.state_sha256) == hash_secret(state),
            col(Login.browser_sha256) == hash_secret(browser),
            col(Login.returned_us).is_(None),
            col(Login.expires_us) > (now := now_us(session)),
        )
        .values(returned_us=now)
    )
    if taken.rowcount != 1:  # type: ignore[attr-defined]
        raise LoginOver
    row = session.exec(select(Login).where(Login.state_sha256 == hash_secret(state))).one()
    return Begun(row.id, row.nonce, row.verifier, row.tenant, row.challenge)


def give_code(session: Session, login_id: str, member_id: str, code: str) -> None:
    """Let the program that waits trade the code for a key."""
    row = session.get_one(Login, login_id)
    row.member_id, row.code_sha256 = member_id, hash_secret(code)
    row.expires_us = now_us(session) + CODE_VALID_US
    session.flush()


def trade(session: Session, code: str, verifier: str, valid_us: int) -> tuple[ApiKey, str]:
    """A key for the person whose login gave the code, for the program that began it.

    Raises:
        LoginOver: the code is unknown, over, used, or another program's.
    """
    row = session.exec(
        select(Login)
        .where(Login.code_sha256 == hash_secret(code), Login.expires_us > now_us(session))
        .with_for_update()
    ).first()
    if row is None:
        raise LoginOver
    is_right = hmac.compare_digest(s256(verifier), row.challenge or "")
    member_id = row.member_id
    session.delete(row)
    session.flush()
    if not is_right or member_id is None:
        raise LoginOver
    return session_key(session, MemberId(member_id), valid_us)


def session_key(session: Session, member_id: MemberId, valid_us: int) -> tuple[ApiKey, str]:
    """A key for a person who has logged in, good for a while."""
    member = session.get_one(Member, member_id)
    rights = Rights(
        Role(member.role),
        None if member.tenant_id is None else TenantId(member.tenant_id),
        expires_us=now_us(session) + valid_us,
    )
    return mint(session, "login", rights, member_id)


def s256(verifier: str) -> str:
    """The challenge of a verifier (RFC 7636)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
