"""Which images which nodes should have soon: pure, from a snapshot and the plan that was made of it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from domain.ids import NodeId
from domain.images import repository_of
from domain.scheduling.capacity import is_accepted, is_driven, is_large_enough, offers_level
from domain.scheduling.snapshot import Demand, Node, Plan, Snapshot

JOBS_AHEAD: Final = 64
"""How many of the waiting jobs are looked at, those first whose turn comes first."""
NODES_FOR_AN_IMAGE: Final = 4
IMAGES_ON_A_NODE: Final = 4
HOPEFUL: Final = frozenset({"back_off", "no_device", "no_room", "quota_gpus", "quota_running"})
"""Reasons that pass by themselves."""


def foresee(snapshot: Snapshot, plan: Plan) -> frozenset[tuple[NodeId, str]]:
    """Nodes and references. Of one image at most as many nodes as jobs wait for it; few for one image or one node.

    An image that was built on a node is nowhere else, and is not foreseen.
    """
    by_id = {demand.job_id: demand for demand in snapshot.queue}
    waiting = (by_id[job_id] for job_id, reason in plan.waiting.items() if reason.code in HOPEFUL)
    wanting = _first(JOBS_AHEAD, (demand for demand in waiting if repository_of(demand.image_reference)))
    open_nodes = [node for node in snapshot.nodes if node.is_open]
    load: Counter[NodeId] = Counter()
    wanted: set[tuple[NodeId, str]] = set()
    counts = Counter(demand.image_reference for demand in wanting)
    for demand in wanting:
        reference = demand.image_reference
        has = {node_id for node_id, image in wanted if image == reference}
        if len(has) >= min(counts[reference], NODES_FOR_AN_IMAGE):
            continue
        fitting = [node for node in open_nodes if node.node_id not in has and _could_run(node, demand)]
        free = [node for node in fitting if load[node.node_id] < IMAGES_ON_A_NODE]
        if free:
            best = min(free, key=lambda node: _rank(node, demand, load[node.node_id]))
            load[best.node_id] += 1
            wanted.add((best.node_id, reference))
    return frozenset(wanted)


def _first(count: int, demands: Iterable[Demand]) -> Sequence[Demand]:
    return [demand for _, demand in zip(range(count), demands, strict=False)]


def _could_run(node: Node, demand: Demand) -> bool:
    """Whether it could, were it empty."""
    if not (
        is_large_enough(node, demand) and is_driven(node.cuda_driver, demand) and offers_level(node.levels, demand)
    ):
        return False
    counts = Counter(
        device.model
        for device in node.devices
        if is_accepted(device.model, demand) and device.memory_bytes >= demand.gpu_memory_min_bytes
    )
    return max(counts.values(), default=0) >= demand.gpus


def _rank(node: Node, demand: Demand, load: int) -> tuple[bool, int, int, str, str]:
    """Where it failed before comes last; then the fewest images to come, the most free devices; ties by name."""
    free = sum(device.is_free for device in node.devices)
    return (node.node_id in demand.avoid, load, -free, node.name, node.node_id)
