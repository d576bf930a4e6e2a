"""The policy: a snapshot in, a plan out, a reason for everyone who waits."""

from collections.abc import Hashable
from dataclasses import replace

from domain.ids import Instant, JobId
from domain.images import digest_of
from domain.scheduling import reasons
from domain.scheduling.capacity import Capacity, Fits
from domain.scheduling.fit import FreeRoom
from domain.scheduling.purse_room import PurseRoom
from domain.scheduling.queue import Book, FairQueue
from domain.scheduling.snapshot import Demand, Placement, Plan, Reason, Snapshot


def plan(snapshot: Snapshot, now: Instant) -> Plan:
    """Place what fits now; say of every other job why it waits.

    The highest class goes first, then who has least for its weight, then the oldest. A job that cannot be placed does
    not hold up those behind it. The order in which nodes, tenants and jobs are handed over changes nothing.
    """
    return _Pass(snapshot, now).run()


class _Pass:
    """One run of the policy over one snapshot."""

    def __init__(self, snapshot: Snapshot, now: Instant) -> None:
        self._now = now
        self._barred_images = snapshot.barred_images
        self._capacity = Capacity(snapshot.nodes)
        self._open_capacity = Capacity(node for node in snapshot.nodes if node.is_open)
        self._free = FreeRoom(snapshot.nodes)
        self._book = Book(snapshot.tenants)
        self._queue = FairQueue(snapshot, self._book)
        self._purses = PurseRoom(snapshot.funds, snapshot.tenants, now)
        self._fits: dict[Hashable, Fits | Reason] = {}
        self._blocked: dict[Hashable, Reason] = {}
        self._arrays = dict(snapshot.arrays)

    def run(self) -> Plan:
        """Take the jobs one by one."""
        placements: list[Placement] = []
        waiting: dict[JobId, Reason] = {}
        while demand := self._queue.next():
            decision = self._decide(demand)
            if isinstance(decision, Placement):
                placements.append(decision)
            else:
                waiting[demand.job_id] = decision
        return Plan(tuple(placements), waiting)

    def _decide(self, demand: Demand) -> Placement | Reason:
        """Place the job, or say why not. What blocked one blocks its equals: room only shrinks during a pass."""
        if suspended := self._book.suspension(demand.tenant_id):
            return suspended
        if demand.not_before > self._now:
            return reasons.not_before(demand) if demand.is_postponed else reasons.back_off(demand)
        room = self._arrays.get(demand.array_id or "")
        if room is not None and room.running >= room.most_running:
            return reasons.array_limit(room.most_running)
        if barred := self._barred(demand):
            return barred
        shape = shape_of(demand)
        equals = (demand.tenant_id, demand.avoid, shape, self._purses.kind_of(demand))
        if equals in self._blocked:
            return self._blocked[equals]
        decision = self._try(demand, shape)
        if isinstance(decision, Reason):
            self._blocked[equals] = decision
        return decision

    def _barred(self, demand: Demand) -> Reason | None:
        """Why nothing of its image starts now."""
        known, reference = self._barred_images, demand.image_reference
        return (known.get(reference) or known.get(digest_of(reference))) if known else None

    def _try(self, demand: Demand, shape: Hashable) -> Placement | Reason:
        """Capacity, then quota, then purses, then what is free."""
        fits = self._fits.get(shape)
        if fits is None:
            fits = self._fits[shape] = self._check(demand)
        if isinstance(fits, Reason):
            return fits
        permitted = self._book.permitted(demand, fits.models)
        if isinstance(permitted, Reason):
            return permitted
        affordable = self._purses.affordable(demand, permitted)
        if isinstance(affordable, Reason):
            return affordable
        choice = self._free.best(demand, affordable)
        if choice is None:
            barred = [model for model in fits.models if model not in permitted]
            return self._shortage(demand, affordable, barred)
        self._free.take(demand, choice)
        models = tuple(device.model for device in choice.devices)
        self._queue.charge(demand, models[0] if models else None)
        self._purses.charge(demand, models[0] if models else None)
        if (room := self._arrays.get(demand.array_id or "")) is not None:
            self._arrays[demand.array_id or ""] = replace(room, running=room.running + 1)
        gpu_ids = tuple(device.gpu_id for device in choice.devices)
        node_id = choice.room.node.node_id
        return Placement(demand.job_id, demand.tenant_id, node_id, gpu_ids, models, choice.level)

    def _check(self, demand: Demand) -> Fits | Reason:
        """Whether the open nodes could run it; if not, whether it waits for a node to come back, or for ever."""
        fits = self._open_capacity.check(demand)
        if isinstance(fits, Fits):
            return fits
        known = self._capacity.check(demand)
        return known if isinstance(known, Reason) else reasons.no_node(known.nodes)

    def _shortage(self, demand: Demand, permitted: tuple[str, ...], barred: list[str]) -> Reason:
        """What is missing now, beside the tenant's own use."""
        quota = self._book.own_bound(demand.tenant_id, permitted)
        return self._free.shortage(demand, permitted, barred, quota)


def shape_of(demand: Demand) -> Hashable:
    """What makes two jobs equal for the cluster, whoever owns them."""
    return (
        demand.gpus,
        demand.models,
        demand.gpu_memory_min_bytes,
        demand.cpus_milli,
        demand.memory_bytes,
        demand.scratch_bytes,
        demand.least_level,
        demand.allowed_levels,
        demand.image_kind,
        demand.min_cuda,
    )
