"""Nodes and their devices: how they join, show life, and are taken out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col, select

from domain.errors import Conflict, NotFound
from domain.ids import AttemptId, Fence
from domain.states import AttemptState
from domain.verdicts import Known, Named, SandboxVerdict, verdict
from store.assignments import Assigned
from store.clock import now_us
from store.devices_seen import DeviceSeen, see_devices
from store.events import record
from store.tables import Attempt, Gpu, Job, Node


@dataclass(frozen=True, slots=True)
class Facts:
    """What a node said that it is."""

    boot_id: str
    agent_version: str
    kernel: str
    driver_version: str | None
    cuda_driver: str | None
    cpus_milli: int
    memory_bytes: int
    scratch_bytes: int
    levels: tuple[str, ...]
    level_reports: tuple[dict[str, Any], ...]
    labels: dict[str, str]
    devices: tuple[DeviceSeen, ...]
    hints_password_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat."""

    beat: int
    generations: dict[str, int]
    verdicts: tuple[tuple[Named, SandboxVerdict], ...]
    assigned: tuple[Assigned, ...]
    is_news: bool
    """Something changed that could let a job start."""


def register(session: Session, node_id: str, facts: Facts) -> Node:
    """Take down what the node is now; it counts as a sign of life."""
    node = _lock(session, node_id)
    node.boot_id, node.agent_version, node.kernel = facts.boot_id, facts.agent_version, facts.kernel
    node.driver_version, node.cuda_driver = facts.driver_version, facts.cuda_driver
    node.cpus_milli, node.memory_bytes = facts.cpus_milli, facts.memory_bytes
    node.scratch_bytes = facts.scratch_bytes
    node.levels, node.level_reports = list(facts.levels), [dict(report) for report in facts.level_reports]
    node.labels = dict(facts.labels)
    node.hints_password_sha256 = facts.hints_password_sha256
    _show_life(session, node)
    see_devices(session, node.id, facts.devices)
    record(session, "node_registered", node_id=node.id, data={"levels": list(facts.levels)})
    return node


def heartbeat(
    session: Session,
    node_id: str,
    boot_id: str,
    devices: Sequence[DeviceSeen],
    held: Sequence[Named],
    problems: Sequence[str],
) -> Beat:
    """Raise the node's beat; take down its devices; say of each sandbox that it named what to do with it.

    Raises:
        Conflict: the node was declared lost, or another boot of it is registered.
    """
    node = _lock(session, node_id)
    if boot_id != node.boot_id:
        raise Conflict("the node has to register again", "it speaks of another boot than it registered with")
    is_news = _show_life(session, node)
    node.problems = list(problems)
    is_news = see_devices(session, node.id, devices) or is_news
    session.flush()
    gpus = session.exec(select(Gpu.uuid, Gpu.generation).where(Gpu.node_id == node_id)).all()
    waiting = session.exec(
        select(Attempt.id, Attempt.fence).where(Attempt.node_id == node_id, Attempt.state == AttemptState.ASSIGNED)
    ).all()
    return Beat(
        beat=node.beat,
        generations=dict(gpus),
        verdicts=tuple((named, verdict(named, _known(session, node_id, named))) for named in held),
        assigned=tuple(Assigned(attempt_id, fence, node_id) for attempt_id, fence in waiting),
        is_news=is_news,
    )


def drain(session: Session, node_id: str) -> Node:
    """Place nothing new there; what runs goes on."""
    return _set_state(session, node_id, "draining")


def drain_all(session: Session) -> None:
    """Place nothing new anywhere, until an admin resumes each node."""
    for node_id in session.exec(select(Node.id).where(Node.state == "ready").order_by(col(Node.id))).all():
        drain(session, node_id)


def resume(session: Session, node_id: str) -> Node:
    """Place jobs there again."""
    return _set_state(session, node_id, "ready")


def declare_lost(session: Session, node_id: str) -> tuple[Node, list[str]]:
    """An admin's word that the node is gone: its attempts, which are returned, can be given up at once."""
    node = _set_state(session, node_id, "lost")
    node.is_reachable = False
    live = session.exec(select(Attempt.id).where(Attempt.node_id == node_id, col(Attempt.state) != "ended"))
    return node, list(live.all())


def set_reachable(session: Session, node_id: str, is_reachable: bool) -> bool:
    """Whether that changed anything."""
    changed = session.execute(
        update(Node)
        .where(col(Node.id) == node_id, col(Node.is_reachable).is_not(is_reachable))
        .values(is_reachable=is_reachable)
    )
    if changed.rowcount == 1:  # type: ignore[attr-defined]
        record(session, "node_reachable" if is_reachable else "node_unreachable", node_id=node_id)
        return True
    return False


def _lock(session: Session, node_id: str) -> Node:
    node = session.exec(
        select(Node).where(Node.id == node_id).with_for_update().execution_options(populate_existing=True)
    ).first()
    if node is None:
        raise NotFound("node")
    return node


def _set_state(session: Session, node_id: str, state: str) -> Node:
    node = _lock(session, node_id)
    if node.state != state:
        node.state = state
        record(session, f"node_{state}", node_id=node.id, text=f"node {node.name} is {state}")
    session.flush()
    return node


def _show_life(session: Session, node: Node) -> bool:
    """Raise the beat. Whether the node was thought to be away."""
    was_away = not node.is_reachable
    node.beat += 1
    node.last_beat_us = now_us(session)
    node.is_reachable = True  # one that was declared lost still takes no jobs until an admin resumes it
    if was_away:
        record(session, "node_reachable", node_id=node.id)
    return was_away


def _known(session: Session, node_id: str, named: Named) -> Known | None:
    row = session.exec(
        select(Attempt.state, Attempt.stop_reason, Attempt.node_id, Job.fence)
        .join(Job, col(Job.id) == Attempt.job_id)
        .where(Attempt.id == named.attempt_id)
    ).first()
    if row is None:
        return None
    state, stop_reason, holder, fence = row
    return Known(AttemptState(state), Fence(fence), stop_reason, holder == node_id)


def named(attempt_id: str, fence: int) -> Named:
    """A sandbox as a worker names it."""
    return Named(AttemptId(attempt_id), Fence(fence))
