"""Tenants' secrets. The store takes and gives them sealed: who opens them is elsewhere, and in no transaction."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col, select

from domain.errors import Limit, NotFound, SecretGone
from domain.ids import NodeId, TenantId
from store.artifacts import Writable, writable
from store.clock import now_us
from store.events import record
from store.sealing import Envelope, Sealed
from store.tables import Job, Secret

SECRETS_MAX = 1000
"""Of one tenant."""


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """One that a job names, as it stood when its node asked for it."""

    tenant_id: TenantId
    name: str
    version: int
    sealed: Sealed

    @property
    def place(self) -> str:
        """Where it belongs: what it is bound to."""
        return place_of(self.tenant_id, self.name)


def place_of(tenant_id: str, name: str) -> str:
    """The place to which a secret's envelope is bound."""
    return f"secret/{tenant_id}/{name}"


def keep(session: Session, tenant_id: TenantId, name: str, envelope: Envelope, value: bytes) -> Secret:
    """Set the value, as a new version. Jobs that start from now on get it.

    Raises:
        Limit: the tenant has as many as it may.
    """
    held = session.get(Secret, (tenant_id, name), with_for_update=True)
    version = 1 if held is None else held.version + 1
    sealed = envelope.seal(value, version)
    if held is None:
        if len(session.exec(select(Secret.name).where(Secret.tenant_id == tenant_id)).all()) >= SECRETS_MAX:
            raise Limit(f"a tenant keeps at most {SECRETS_MAX} secrets", "delete one: corral secrets delete NAME")
        held = Secret(
            tenant_id=tenant_id,
            name=name,
            version=version,
            wrapped_key="",
            ciphertext=b"",
            size_bytes=0,
            created_us=0,
        )
    held.version, held.wrapped_key, held.ciphertext = version, sealed.wrapped_key, sealed.ciphertext
    held.size_bytes, held.created_us = len(value), now_us(session)
    session.add(held)
    session.flush()
    return held


def secrets(session: Session, scope: TenantId | None, limit: int, start: str | None) -> Sequence[Secret]:
    """What is kept, without the values, by tenant and name; one more than `limit` if there are."""
    query = select(Secret)
    if scope is not None:
        query = query.where(Secret.tenant_id == scope)
    if start is not None:
        tenant_id, _, name = start.partition("/")
        query = query.where(
            (col(Secret.tenant_id) > tenant_id) | ((col(Secret.tenant_id) == tenant_id) & (col(Secret.name) > name))
        )
    return session.exec(query.order_by(col(Secret.tenant_id), col(Secret.name)).limit(limit + 1)).all()


def forget(session: Session, tenant_id: TenantId, name: str) -> None:
    """Delete it. A job that names it and has not started fails when it would.

    Raises:
        NotFound: the tenant has none of that name.
    """
    held = session.get(Secret, (tenant_id, name), with_for_update=True)
    if held is None:
        raise NotFound("secret")
    session.delete(held)
    session.flush()


def secrets_of(spec: Mapping[str, Any]) -> Sequence[str]:
    """The names of the secrets that a job asks for."""
    names: Sequence[str] = spec.get("secrets", ())
    return names


def kept_of(session: Session, wanted: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which of these, as (tenant, name), are kept."""
    if not wanted:
        return set()
    tenants, names = {tenant for tenant, _ in wanted}, {name for _, name in wanted}
    query = select(Secret.tenant_id, Secret.name).where(col(Secret.tenant_id).in_(tenants), col(Secret.name).in_(names))
    return {(tenant_id, name) for tenant_id, name in session.exec(query)} & set(wanted)


def for_node(session: Session, node_id: NodeId, attempt_id: str, fence: int) -> Sequence[SealedSecret]:
    """What the attempt's job names, for the node that holds the attempt while it lives; each time is recorded.

    Raises:
        NotFound: it is not an attempt of this node.
        StaleFence: it is over, or a newer one has taken its place.
        SecretGone: one was deleted since the job was submitted.
    """
    attempt = writable(session, node_id, attempt_id, fence)
    names = secrets_of(session.exec(select(Job.spec).where(Job.id == attempt.job_id)).one())
    found = {
        row.name: row
        for row in session.exec(
            select(Secret)
            .where(Secret.tenant_id == attempt.tenant_id, col(Secret.name).in_(names))
            .order_by(col(Secret.name))
        )
    }
    for name in names:
        if name not in found:
            raise SecretGone(name)
    versions = {name: row.version for name, row in found.items()}
    _note_use(session, node_id, attempt, versions)
    return [
        SealedSecret(attempt.tenant_id, row.name, row.version, Sealed(row.wrapped_key, row.ciphertext))
        for row in found.values()
    ]


def _note_use(session: Session, node_id: NodeId, attempt: Writable, versions: Mapping[str, int]) -> None:
    session.execute(
        update(Secret)
        .where(col(Secret.tenant_id) == attempt.tenant_id, col(Secret.name).in_(versions))
        .values(last_used_us=now_us(session))
    )
    record(
        session,
        "secrets_given",
        tenant_id=attempt.tenant_id,
        job_id=attempt.job_id,
        attempt_id=attempt.attempt_id,
        node_id=node_id,
        text=f"its node was given the secrets {', '.join(versions)}",
        data={"versions": versions},
    )
