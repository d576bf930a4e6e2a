"""Inputs, kept by (tenant, hash): nobody learns what another tenant has."""

from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col, select

from domain.errors import NotFound
from domain.ids import NodeId, TenantId
from store.clock import now_us
from store.tables import Attempt, JobInput, StoredInput


def keep_input(session: Session, tenant_id: TenantId, sha256: str, size_bytes: int) -> StoredInput:
    """Note an input whose bytes are stored. One that the tenant has already stays as it is."""
    insert = postgres_insert if session.get_bind().dialect.name == "postgresql" else sqlite_insert
    session.execute(
        insert(StoredInput)
        .values(tenant_id=tenant_id, sha256=sha256, size_bytes=size_bytes, created_us=now_us(session))
        .on_conflict_do_nothing()
    )
    return session.get_one(StoredInput, (tenant_id, sha256))


def stored_for_node(session: Session, node_id: NodeId, attempt_id: str, sha256: str) -> StoredInput:
    """The input, for a node that holds a live attempt that names it.

    Raises:
        NotFound: the attempt is not the node's, is over, or does not name that input.
    """
    found = session.exec(
        select(StoredInput)
        .join(Attempt, col(Attempt.tenant_id) == StoredInput.tenant_id)
        .join(JobInput, col(JobInput.job_id) == Attempt.job_id)
        .where(
            Attempt.id == attempt_id,
            Attempt.node_id == node_id,
            Attempt.state != "ended",
            JobInput.sha256 == sha256,
            StoredInput.sha256 == sha256,
        )
    ).first()
    if found is None:
        raise NotFound("input")
    return found
