"""The one order in which rows are locked, so that no two transactions wait for each other.

nodes (by id) → quota rows (from the root of the tenant tree down) → job → attempt → devices (by id) → tenant's chain.

On SQLite a writing transaction holds the only write lock anyway, and these statements only read.
"""

from collections.abc import Iterable

from sqlmodel import Session, col, select

from domain.ids import TenantId
from domain.scheduling.snapshot import ANY_MODEL
from store.tables import Node, Quota, Tenant


def tree(session: Session, tenant_id: str) -> tuple[TenantId, ...]:
    """The tenant and all above it, root first. A tenant never moves, so a transaction asks once."""
    known: dict[str, tuple[TenantId, ...]] = session.info.setdefault("trees", {})
    if tenant_id not in known:
        known[tenant_id] = _path(session, tenant_id)
    return known[tenant_id]


def _path(session: Session, tenant_id: str) -> tuple[TenantId, ...]:
    path: list[TenantId] = []
    current: str | None = tenant_id
    while current is not None:
        path.append(TenantId(current))
        current = session.exec(select(Tenant.parent_id).where(Tenant.id == current)).one()
    return tuple(reversed(path))


def lock_nodes(session: Session, node_ids: Iterable[str]) -> None:
    """Hold the rows of these nodes until the transaction's end."""
    for node_id in sorted(set(node_ids)):
        session.exec(select(Node.id).where(Node.id == node_id).with_for_update()).one()


def lock_quotas(session: Session, tenant_ids: Iterable[str]) -> None:
    """Hold the quotas of these tenants and of all above them. The row `*` stands for all rows of its tenant."""
    depth_of: dict[str, int] = {}
    for tenant_id in set(tenant_ids):
        depth_of |= {above: depth for depth, above in enumerate(tree(session, tenant_id))}
    for tenant_id in sorted(depth_of, key=lambda each: (depth_of[each], each)):
        session.exec(
            select(Quota.tenant_id).where(Quota.tenant_id == tenant_id, col(Quota.model) == ANY_MODEL).with_for_update()
        ).one()
