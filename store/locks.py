"""The one order in which rows are locked, so that no two transactions wait for each other.

platform admins' keys, then members (by id) → nodes (by id) → quota rows (from the root of the tenant tree down) → quota
request → job → attempt → devices (by id) → tenant's chain → webhook → its deliveries → audit chains (by name).

Rows of `image_check` (by reference) come after the nodes', and nothing is locked after them but the audit.
Purses and holds, arrays and dependencies change under the quota rows of their tenant, and so need no place in the
order. Idempotency keys are taken before all of these, but for submissions, which take them last: a key belongs to one
tenant, whose submissions the quota rows keep apart.
On SQLite a writing transaction holds the only write lock anyway.
"""

from collections.abc import Callable, Iterable

from sqlalchemy import bindparam, select
from sqlmodel import Session

from domain.ids import TenantId
from domain.scheduling.snapshot import ANY_MODEL
from store.base import table_of
from store.tables import Node, Quota, Tenant

_TENANT, _NODE, _QUOTA = table_of(Tenant), table_of(Node), table_of(Quota)
_PARENT = select(_TENANT.c.parent_id).where(_TENANT.c.id == bindparam("of"))
_LOCK_NODE = select(_NODE.c.id).where(_NODE.c.id == bindparam("of")).with_for_update()
_LOCK_QUOTA = (
    select(_QUOTA.c.tenant_id)
    .where(_QUOTA.c.tenant_id == bindparam("of"), _QUOTA.c.model == ANY_MODEL)
    .with_for_update()
)


def tree(session: Session, tenant_id: str) -> tuple[TenantId, ...]:
    """The tenant and all above it, root first. A tenant never moves, so a session asks once."""
    known: dict[str, tuple[TenantId, ...]] = session.info.setdefault("trees", {})
    if tenant_id not in known:
        path: list[TenantId] = []
        current: str | None = tenant_id
        while current is not None:
            path.append(TenantId(current))
            current = session.connection().execute(_PARENT, {"of": current}).scalar_one()
        known[tenant_id] = tuple(reversed(path))
    return known[tenant_id]


def remember_tree(session: Session, tenant_id: str, path: Iterable[TenantId]) -> None:
    """Somebody read the tenant's way to the root already: the root first, itself last."""
    session.info.setdefault("trees", {})[tenant_id] = tuple(path)


def lock_nodes(session: Session, node_ids: Iterable[str]) -> None:
    """Hold the rows of these nodes until the transaction's end."""
    if _locks_by_itself(session):
        return
    for node_id in sorted(set(node_ids)):
        session.connection().execute(_LOCK_NODE, {"of": node_id})


def lock_quotas(session: Session, tenant_ids: Iterable[str]) -> None:
    """Hold the quotas of these tenants and of all above them. The row `*` stands for all rows of its tenant."""
    if _locks_by_itself(session):
        return
    depth_of: dict[str, int] = {}
    for tenant_id in set(tenant_ids):
        depth_of |= {above: depth for depth, above in enumerate(tree(session, tenant_id))}
    for tenant_id in sorted(depth_of, key=lambda each: (depth_of[each], each)):
        session.connection().execute(_LOCK_QUOTA, {"of": tenant_id})


def lock_where_it_runs(session: Session, tenant_id: str, node_ids: Callable[[], Iterable[str]]) -> None:
    """Hold the nodes on which something of the tenant runs, as `node_ids` finds them, and then the tenant's quotas.

    Only who holds the quotas knows that nothing more is assigned: if something was in between, all is let go of, and
    taken again in its order.
    """
    found = set(node_ids())
    while True:
        with session.begin_nested() as taken:
            lock_nodes(session, found)
            lock_quotas(session, [tenant_id])
            before, found = found, set(node_ids())
            if found <= before:
                return
            taken.rollback()


def _locks_by_itself(session: Session) -> bool:
    """SQLite: a writing transaction has the only write lock from its beginning."""
    return session.get_bind().dialect.name == "sqlite"
