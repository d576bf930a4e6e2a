"""A node that an admin gave up."""

from collections.abc import Sequence

from sqlmodel import Session, col, select

from store.ends import lose
from store.locks import lock_quotas
from store.nodes import declare_lost
from store.tables import Attempt


def give_up_node(session: Session, node_id: str) -> Sequence[str]:
    """The node is lost, and so is every attempt on it; the jobs of these, which may run elsewhere.

    Raises:
        NotFound: there is no such node.
    """
    _, attempt_ids = declare_lost(session, node_id)
    lost = session.exec(select(Attempt).where(col(Attempt.id).in_(attempt_ids)).order_by(col(Attempt.id))).all()
    lock_quotas(session, (attempt.tenant_id for attempt in lost))  # all before the first, in their one order
    for attempt in lost:
        lose(session, attempt.id)
    return [attempt.job_id for attempt in lost]
