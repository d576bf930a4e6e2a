"""What there is to run on, for those who look."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from domain.errors import NotFound
from store.paging import Position, after
from store.tables import Gpu, Node

Kind = tuple[str, int, bool]
"""Model, memory in bytes, whether it is simulated."""


@dataclass(frozen=True, slots=True)
class Availability:
    """How many devices there are of a kind."""

    model: str
    memory_bytes: int
    is_simulated: bool
    total: int
    usable: int
    """Neither sick nor dirty, on a node that takes jobs."""
    free: int


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node with its devices."""

    node: Node
    gpus: Sequence[Gpu]


def availability(session: Session) -> list[Availability]:
    """Every kind of device that a job could ask for, by model."""
    total: Counter[Kind] = Counter()
    usable: Counter[Kind] = Counter()
    free: Counter[Kind] = Counter()
    rows = session.exec(
        select(Gpu, Node).join(Node, col(Node.id) == Gpu.node_id).where(Gpu.state != "absent", Node.state != "lost")
    )
    for gpu, node in rows:
        kind = (gpu.model, gpu.memory_bytes, gpu.is_simulated)
        total[kind] += 1
        is_usable = gpu.health == "ok" and gpu.state == "clean" and node.state == "ready" and node.is_reachable
        usable[kind] += is_usable
        free[kind] += is_usable and gpu.used_milli == 0
    return [Availability(*kind, total[kind], usable[kind], free[kind]) for kind in sorted(total)]


def nodes(session: Session, limit: int, start: Position | None) -> list[NodeRecord]:
    """Nodes with their devices, newest first; one more than `limit` if there are."""
    query = select(Node)
    if start is not None:
        query = query.where(after(start, col(Node.created_us), col(Node.id)))
    found = session.exec(query.order_by(col(Node.created_us).desc(), col(Node.id).desc()).limit(limit + 1)).all()
    return _records(session, found)


def node(session: Session, node_id: str) -> NodeRecord:
    """One node.

    Raises:
        NotFound: there is none with that id.
    """
    found = session.get(Node, node_id)
    if found is None:
        raise NotFound("node")
    return _records(session, [found])[0]


def _records(session: Session, found: Sequence[Node]) -> list[NodeRecord]:
    gpus: dict[str, list[Gpu]] = {each.id: [] for each in found}
    for gpu in session.exec(select(Gpu).where(col(Gpu.node_id).in_(gpus)).order_by(col(Gpu.uuid))):
        gpus[gpu.node_id].append(gpu)
    return [NodeRecord(each, gpus[each.id]) for each in found]
