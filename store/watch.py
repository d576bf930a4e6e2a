"""What the sweeper watches, and the old rows that it takes away."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete
from sqlmodel import Session, col, select

from domain.ids import AttemptId, Fence, JobId, NodeId
from domain.states import AttemptState
from store.clock import now_us
from store.idempotency import KEPT_US
from store.tables import Attempt, Idempotency, Job, JoinToken, Node

JOIN_TOKEN_KEPT_US = 24 * 3_600_000_000
"""Kept after it expired, so that an admin can see what became of it."""


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """An attempt that has not ended."""

    attempt_id: AttemptId
    job_id: JobId
    node_id: NodeId
    fence: Fence
    state: AttemptState
    grace_us: int
    max_unreachable_us: int | None


@dataclass(frozen=True, slots=True)
class NodeBeat:
    """How far a node's beat counter is."""

    node_id: NodeId
    beat: int
    is_reachable: bool
    is_lost: bool
    """An admin declared it lost."""


def live_attempts(session: Session) -> Sequence[LiveAttempt]:
    """All of them, by id."""
    rows = session.execute(
        select(  # type: ignore[call-overload]
            Attempt.id,
            Attempt.job_id,
            Attempt.node_id,
            Attempt.fence,
            Attempt.state,
            Job.grace_us,
            Job.max_unreachable_us,
        )
        .join(Job, col(Job.id) == Attempt.job_id)
        .where(col(Attempt.state) != AttemptState.ENDED)
        .order_by(col(Attempt.id))
    )
    return [
        LiveAttempt(attempt_id, job_id, node_id, fence, AttemptState(state), grace_us, max_unreachable_us)
        for attempt_id, job_id, node_id, fence, state, grace_us, max_unreachable_us in rows
    ]


def node_beats(session: Session) -> Sequence[NodeBeat]:
    """All nodes, by id."""
    rows = session.exec(select(Node.id, Node.beat, Node.is_reachable, Node.state).order_by(col(Node.id)))
    return [NodeBeat(NodeId(node_id), beat, reachable, state == "lost") for node_id, beat, reachable, state in rows]


def hints_passwords(session: Session) -> dict[NodeId, str]:
    """Of every node that may ask Redis for hints: the SHA-256 of its password, hex."""
    rows = session.exec(
        select(Node.id, Node.hints_password_sha256).where(
            col(Node.hints_password_sha256).is_not(None), Node.state != "lost"
        )
    )
    return {NodeId(node_id): password_hash for node_id, password_hash in rows if password_hash}


def prune(session: Session) -> int:
    """Delete answers and join tokens that nobody can use any more. How many there were."""
    now = now_us(session)
    answers = session.execute(delete(Idempotency).where(col(Idempotency.created_us) < now - KEPT_US))
    tokens = session.execute(delete(JoinToken).where(col(JoinToken.expires_us) < now - JOIN_TOKEN_KEPT_US))
    return int(answers.rowcount + tokens.rowcount)  # type: ignore[attr-defined]
