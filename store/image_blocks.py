"""Blocks a digest, under every name that it has, and lets it go again."""

from collections.abc import Sequence

from sqlmodel import Session, col, select

from domain.endings import Outcome
from domain.images import digest_of
from domain.states import AttemptState
from store.attempts import StopHint, order_stop
from store.base import table_of
from store.blocked_digests import digest_column
from store.clock import now_us
from store.ends import withdraw
from store.events import record
from store.image_news import tell_blocked
from store.locks import lock_nodes, lock_quotas
from store.tables import Attempt, ImageBlock, Job


def block(session: Session, reference: str, reason: str, is_to_stop: bool) -> tuple[Sequence[StopHint], Sequence[str]]:
    """Let nothing of this digest start from now on, under whatever name.

    What was assigned and not yet taken by its node goes back to the queue, where it waits with the reason. What runs
    goes on, unless `is_to_stop`: then it is told to stop as if preempted, and waits as well.

    Returns:
        The nodes that should hear of a stop, and the jobs that changed.
    """
    digest = digest_of(reference)
    row = session.get(ImageBlock, digest)
    if row is None:
        row = ImageBlock(digest=digest, reason=reason, blocked_us=now_us(session))
        session.add(row)
    row.reason = reason
    session.flush()
    record(session, "image_blocked", text=f"{digest}: {reason}")
    tell_blocked(session, digest, reason)
    live = _live(session, digest)
    lock_nodes(session, (each.node_id for each in live))  # all before the first, in their one order
    lock_quotas(session, (each.tenant_id for each in live))
    hints, jobs = [], []
    for attempt in live:
        if attempt.state == AttemptState.ASSIGNED and withdraw(session, attempt.id, Outcome.SUPERSEDED):
            jobs.append(attempt.job_id)
        elif is_to_stop and (hint := order_stop(session, attempt.id, "preempted")) is not None:
            hints.append(hint)
            jobs.append(attempt.job_id)
    return hints, jobs


def unblock(session: Session, reference: str) -> None:
    """Let it start again; what waited for that goes on."""
    row = session.get(ImageBlock, digest_of(reference))
    if row is not None:
        session.delete(row)
        session.flush()
        record(session, "image_unblocked", text=row.digest)


def _live(session: Session, digest: str) -> Sequence[Attempt]:
    return session.exec(
        select(Attempt)
        .join(Job, col(Job.id) == Attempt.job_id)
        .where(col(Attempt.state) != AttemptState.ENDED, digest_column(table_of(Job).c.image_reference) == digest)
        .order_by(col(Attempt.node_id), col(Attempt.id))
    ).all()
