"""What is free now, and the best place for a job in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from domain.ids import NodeId
from domain.levels import Level, chosen_level
from domain.quota import Bound
from domain.scheduling import reasons
from domain.scheduling.capacity import NodeClass, class_of, is_driven, is_large_enough, offers_level
from domain.scheduling.snapshot import Demand, Device, Node, Reason

Rank = tuple[int | str, ...]
"""How good a place is, the smallest first; the last parts are names, so that no two are equal."""


@dataclass(slots=True, eq=False)
class NodeRoom:
    """What is left of an open node during a pass."""

    node: Node
    free: dict[str, list[Device]]
    """Free devices by model, by UUID."""
    cpus_milli: int
    memory_bytes: int
    scratch_bytes: int
    devices_free: int = field(init=False)

    def __post_init__(self) -> None:
        self.devices_free = sum(map(len, self.free.values()))

    @classmethod
    def of(cls, node: Node) -> "NodeRoom":
        """The room of a node before anything was placed."""
        free: dict[str, list[Device]] = {}
        for device in sorted(node.devices, key=lambda device: device.uuid):
            if device.is_free:
                free.setdefault(device.model, []).append(device)
        return cls(node, free, node.cpus_milli_free, node.memory_bytes_free, node.scratch_bytes_free)

    def holds(self, demand: Demand) -> bool:
        """Whether processors, memory and scratch suffice now."""
        return (
            self.cpus_milli >= demand.cpus_milli
            and self.memory_bytes >= demand.memory_bytes
            and self.scratch_bytes >= demand.scratch_bytes
        )

    def devices(self, model: str, demand: Demand) -> Sequence[Device]:
        """The free devices of a model that have memory enough, by UUID."""
        free = self.free.get(model, [])
        if not demand.gpu_memory_min_bytes:
            return free
        return [device for device in free if device.memory_bytes >= demand.gpu_memory_min_bytes]


@dataclass(frozen=True, slots=True)
class Choice:
    """A place for a job."""

    room: NodeRoom
    devices: tuple[Device, ...]
    level: Level


@dataclass(frozen=True, slots=True)
class Remnant:
    """What is left of some nodes, in numbers for a reason."""

    free: int
    total: int
    most_on_one: int
    """Most free devices of one model on one node."""
    most_amounts: Mapping[str, int]
    """The most of each amount that is free on a node with enough free devices."""


class FreeRoom:
    """The open nodes, less what this pass has placed already."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        rooms = [NodeRoom.of(node) for node in nodes if node.is_open]
        self._with_model: dict[str, list[NodeRoom]] = {}
        for room in rooms:
            for model in room.free:
                self._with_model.setdefault(model, []).append(room)
        self._kinds = _alike(rooms)
        self._remnants: dict[tuple[tuple[int, ...], tuple[str, ...], int, int], Remnant] = {}

    def best(self, demand: Demand, models: Sequence[str]) -> Choice | None:
        """The best place now, on devices of one of `models`; None if there is none.

        Nodes where it failed before are taken only if no other fits; then the model preferred most; then the node on
        which the fewest devices stay free, the least device memory is wasted and the fewest processors are left.
        """
        for is_avoided in (False, True) if demand.avoid else (False,):
            for wanted in _rounds(demand, models):
                if choice := self._best_of(demand, wanted, is_avoided):
                    return choice
        return None

    def take(self, demand: Demand, choice: Choice) -> None:
        """Hold what the choice needs, for the rest of the pass."""
        self._remnants.clear()
        room = choice.room
        room.cpus_milli -= demand.cpus_milli
        room.memory_bytes -= demand.memory_bytes
        room.scratch_bytes -= demand.scratch_bytes
        if not choice.devices:
            return
        model = choice.devices[0].model
        taken = {device.gpu_id for device in choice.devices}
        room.free[model] = [device for device in room.free[model] if device.gpu_id not in taken]
        room.devices_free -= len(taken)
        if not room.free[model]:
            self._with_model[model].remove(room)

    def shortage(self, demand: Demand, models: Sequence[str], barred: Sequence[str], quota: Bound | None) -> Reason:
        """What is missing now for a job that would fit on the empty cluster.

        `barred` are models that the tenant's quota excludes now, `quota` its own row that leaves the least.
        """
        kinds = tuple(kind for kind, rooms in enumerate(self._kinds) if _could_run(rooms[0], demand))
        asked = (kinds, tuple(models), demand.gpus, demand.gpu_memory_min_bytes)
        if asked not in self._remnants:
            self._remnants[asked] = _remnant([room for kind in kinds for room in self._kinds[kind]], demand, models)
        left = self._remnants[asked]
        if left.most_on_one >= demand.gpus:
            return reasons.no_room(demand, left.most_amounts)
        return reasons.no_device(
            demand, models, barred, free=left.free, total=left.total, most_on_one=left.most_on_one, quota=quota
        )

    def _best_of(self, demand: Demand, models: Sequence[str], is_avoided: bool) -> Choice | None:
        """The best among all these models, on the nodes to be avoided or on the others."""
        best: tuple[Rank, NodeRoom, tuple[Device, ...]] | None = None
        for rank, room, devices in self._places(demand, models, demand.avoid, is_avoided):
            if best is None or rank < best[0]:
                best = (rank, room, devices)
        if best is None:
            return None
        level = chosen_level(best[1].node.levels, demand.least_level, demand.image_kind, demand.allowed_levels)
        return Choice(best[1], best[2], level) if level else None

    def _places(
        self, demand: Demand, models: Sequence[str], avoid: frozenset[NodeId], is_avoided: bool
    ) -> Iterator[tuple[Rank, NodeRoom, tuple[Device, ...]]]:
        """Every place that fits, with its rank."""
        if not demand.gpus:
            for rooms in self._kinds:
                if _could_run(rooms[0], demand):
                    for room in rooms:
                        if room.holds(demand) and (room.node.node_id in avoid) == is_avoided:
                            yield _rank_without_gpus(room, demand), room, ()
            return
        for model in models:
            for room in self._with_model.get(model, ()):
                if not room.holds(demand) or (room.node.node_id in avoid) != is_avoided:
                    continue
                devices = tuple(room.devices(model, demand)[: demand.gpus])
                if len(devices) == demand.gpus and _could_run(room, demand):
                    yield _rank(room, demand, devices), room, devices


def _could_run(room: NodeRoom, demand: Demand) -> bool:
    """Whether the node could run it if it were empty and had the devices."""
    node = room.node
    return is_large_enough(node, demand) and is_driven(node.cuda_driver, demand) and offers_level(node.levels, demand)


def _rounds(demand: Demand, models: Sequence[str]) -> Iterable[Sequence[str]]:
    """Models to be tried together: all at once, unless the job prefers some to others."""
    return [[model] for model in models] if demand.gpus and demand.models else [models]


def _rank(room: NodeRoom, demand: Demand, devices: tuple[Device, ...]) -> Rank:
    """Fewest devices left free, least device memory to spare, fewest processors left; ties by name."""
    return (
        room.devices_free - demand.gpus,
        sum(device.memory_bytes for device in devices),
        room.cpus_milli - demand.cpus_milli,
        room.node.name,
        room.node.node_id,
        devices[0].model,
    )


def _rank_without_gpus(room: NodeRoom, demand: Demand) -> Rank:
    """Nodes without devices first, then those with the fewest free, so that no GPU is stranded."""
    return (
        len(room.node.devices) > 0,
        room.devices_free,
        room.cpus_milli - demand.cpus_milli,
        room.node.name,
        room.node.node_id,
    )


def _alike(rooms: Iterable[NodeRoom]) -> list[list[NodeRoom]]:
    """The rooms of nodes that are the same when empty, so that a question about these is asked once."""
    alike: dict[NodeClass, list[NodeRoom]] = {}
    for room in rooms:
        alike.setdefault(class_of(room.node), []).append(room)
    return list(alike.values())


def _remnant(rooms: Sequence[NodeRoom], demand: Demand, models: Sequence[str]) -> Remnant:
    """What these nodes have left of these models."""
    counts = [[len(room.devices(model, demand)) for model in models] for room in rooms]
    served = [room for room, each in zip(rooms, counts, strict=True) if max(each, default=0) >= demand.gpus]
    return Remnant(
        free=sum(map(sum, counts)),
        total=sum(1 for room in rooms for device in room.node.devices if _suits(device, demand, models)),
        most_on_one=max((count for each in counts for count in each), default=0),
        most_amounts={
            "cpus_milli": max((room.cpus_milli for room in served), default=0),
            "memory_bytes": max((room.memory_bytes for room in served), default=0),
            "scratch_bytes": max((room.scratch_bytes for room in served), default=0),
        },
    )


def _suits(device: Device, demand: Demand, models: Sequence[str]) -> bool:
    """Whether the job could use this device, were it free."""
    return device.model in models and device.memory_bytes >= demand.gpu_memory_min_bytes
