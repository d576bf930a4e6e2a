"""What the cluster could run if it were empty: the difference between waiting and waiting for ever."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from domain.levels import Level, chosen_level
from domain.scheduling import reasons
from domain.scheduling.snapshot import Demand, Node, Reason


class NodeClass(NamedTuple):
    """All nodes that are alike when they are empty."""

    levels: frozenset[Level]
    cuda_driver: tuple[int, int] | None
    cpus_milli: int
    memory_bytes: int
    scratch_bytes: int
    devices: tuple[tuple[str, int], ...]
    """Model and memory of each device, sorted."""


class Seat(NamedTuple):
    """Where a demand would sit: a class of nodes and, if it wants devices, one accepted model there."""

    node_class: NodeClass
    model: str
    memories: tuple[int, ...]
    """Memory of each device of the model, the largest first."""


@dataclass(frozen=True, slots=True)
class Fits:
    """It fits on the empty cluster."""

    models: tuple[str, ...]
    """Models that would do, in the order of preference, or of their names if there is none; empty without GPUs."""
    nodes: int
    """How many nodes would do."""


class Capacity:
    """The empty cluster, by classes of nodes, so that a hundred equal nodes are looked at once."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._counts = Counter(class_of(node) for node in nodes)
        self._models = {kind: _models_of(kind) for kind in self._counts}

    def check(self, demand: Demand) -> Fits | Reason:
        """Where it would fit, or the first need that leaves no node: level, model, memory, driver, size."""
        if not self._counts:
            return reasons.no_node(known=0)
        at_level = [kind for kind in self._counts if offers_level(kind.levels, demand)]
        if not at_level:
            return reasons.no_level(demand, self._counts.total())
        seats = self._seats(at_level, demand) if demand.gpus else [Seat(kind, "", ()) for kind in at_level]
        if isinstance(seats, Reason):
            return seats
        large = [seat for seat in seats if is_large_enough(seat.node_class, demand)]
        if not large:
            return reasons.no_host_room(demand, _most(seats))
        found = {seat.model for seat in large} - {""}
        models = tuple(model for model in demand.models if model in found) if demand.models else tuple(sorted(found))
        return Fits(models, sum(self._counts[kind] for kind in {seat.node_class for seat in large}))

    def _seats(self, kinds: Sequence[NodeClass], demand: Demand) -> list[Seat] | Reason:
        """Classes and models with enough devices, large and modern enough."""
        every = [seat for kind in kinds for seat in self._models[kind] if is_accepted(seat.model, demand)]
        enough = [seat for seat in every if len(seat.memories) >= demand.gpus]
        if not enough:
            total = sum(self._counts[seat.node_class] * len(seat.memories) for seat in every)
            return reasons.no_model(demand, total, max((len(seat.memories) for seat in every), default=0))
        roomy = [seat for seat in enough if seat.memories[demand.gpus - 1] >= demand.gpu_memory_min_bytes]
        if not roomy:
            return reasons.no_memory(demand, max(seat.memories[demand.gpus - 1] for seat in enough))
        driven = [seat for seat in roomy if is_driven(seat.node_class.cuda_driver, demand)]
        if not driven and demand.min_cuda is not None:
            drivers = [seat.node_class.cuda_driver for seat in roomy if seat.node_class.cuda_driver is not None]
            return reasons.no_driver(demand.min_cuda, max(drivers, default=None))
        return driven


def feasible(demand: Demand, nodes: Iterable[Node]) -> Reason | None:
    """Why it would not fit even on the empty cluster, as known now; None if it would.

    Nodes that are not ready count: they may come back. For a check at submission, before a job waits for ever.
    """
    found = Capacity(nodes).check(demand)
    return found if isinstance(found, Reason) else None


def offers_level(levels: frozenset[Level], demand: Demand) -> bool:
    """Whether one of these levels will do."""
    return chosen_level(levels, demand.least_level, demand.image_kind, demand.allowed_levels) is not None


def is_accepted(model: str, demand: Demand) -> bool:
    """Whether the job takes this model."""
    return not demand.models or model in demand.models


def is_driven(cuda_driver: tuple[int, int] | None, demand: Demand) -> bool:
    """Whether the driver runs the image's CUDA. A job without GPUs uses no driver."""
    if demand.min_cuda is None or not demand.gpus:
        return True
    return cuda_driver is not None and cuda_driver >= demand.min_cuda


def is_large_enough(node: NodeClass | Node, demand: Demand) -> bool:
    """Whether the node, when empty, has the processors, memory and scratch."""
    return (
        node.cpus_milli >= demand.cpus_milli
        and node.memory_bytes >= demand.memory_bytes
        and node.scratch_bytes >= demand.scratch_bytes
    )


def class_of(node: Node) -> NodeClass:
    """The node's class."""
    devices = tuple(sorted((device.model, device.memory_bytes) for device in node.devices))
    return NodeClass(node.levels, node.cuda_driver, node.cpus_milli, node.memory_bytes, node.scratch_bytes, devices)


def _models_of(kind: NodeClass) -> list[Seat]:
    """A seat for each model of the class."""
    by_model: dict[str, list[int]] = {}
    for model, memory_bytes in kind.devices:
        by_model.setdefault(model, []).append(memory_bytes)
    return [Seat(kind, model, tuple(reversed(memories))) for model, memories in by_model.items()]


def _most(seats: Sequence[Seat]) -> dict[str, int]:
    """The most of each amount on a node."""
    kinds = [seat.node_class for seat in seats]
    return {
        "cpus_milli": max(kind.cpus_milli for kind in kinds),
        "memory_bytes": max(kind.memory_bytes for kind in kinds),
        "scratch_bytes": max(kind.scratch_bytes for kind in kinds),
    }
