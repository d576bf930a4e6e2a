"""Whose job is next, and what the quotas leave to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import groupby

from domain.ids import TenantId
from domain.quota import Bound, claim, room
from domain.scheduling import reasons
from domain.scheduling.snapshot import ANY_MODEL, WHOLE_GPU, Demand, Reason, Snapshot, TenantShare

SHARE_SCALE = 10**18
"""Shares are compared as whole numbers: this is the whole cluster for a weight of 1."""

Standing = tuple[bool, int, int, int, str]
"""Whether a tenant's next job borrows; then how much it has for its weight: its dominant share of the GPUs, then its
running jobs; then when it was served last, so that a crowd of one's jobs cannot win every freed device from another;
then its name."""


@dataclass(slots=True)
class Account:
    """A tenant's rights, and its use as it grows during a pass: its own and that of all below it."""

    tenant_id: TenantId
    weight: int
    is_active: bool
    gpu_limit_milli: Mapping[str, int | None]
    gpu_used_milli: dict[str, int]
    running_limit: int | None
    running: int
    served_at: int = 0
    gpu_promised_milli: Mapping[str, int] = field(default_factory=dict)
    gpu_kept_milli: Mapping[str, int] = field(default_factory=dict)
    gpu_reserved_milli: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, share: TenantShare) -> "Account":
        """The account as the snapshot has it."""
        return cls(
            share.tenant_id,
            share.weight,
            share.is_active,
            share.gpu_limit_milli,
            dict(share.gpu_used_milli),
            share.running_limit,
            share.running,
            share.served_at,
            share.gpu_promised_milli,
            share.gpu_kept_milli,
            dict(share.gpu_reserved_milli),
        )

    def charge(self, gpus_milli: int, model: str | None, claims: Mapping[str, int] | None = None) -> dict[str, int]:
        """Count one job more, on so many devices of a model. By how much its claims on the one above it grow.

        Args:
            claims: by row, how much those below it claim more now; without, it took the devices itself.
        """
        self.running += 1
        grown: dict[str, int] = {}
        for row in (model, ANY_MODEL) if model is not None else ():
            before = self._claim(row)
            self.gpu_used_milli[row] = self.gpu_used_milli.get(row, 0) + gpus_milli
            if claims is not None and (unclaimed := gpus_milli - claims[row]):
                self.gpu_reserved_milli[row] = self.gpu_reserved_milli.get(row, 0) - unclaimed
            grown[row] = self._claim(row) - before
        return grown

    def owns(self, demand: Demand) -> bool:
        """Whether it has so many devices by its guarantee, and need not borrow them."""
        if not demand.gpus or not self.gpu_promised_milli:
            return False
        models = demand.models or tuple(self.gpu_promised_milli)
        by_model = [model for model in models if model != ANY_MODEL]
        return any(self._has_promised(model, demand) for model in by_model) or self._has_promised(ANY_MODEL, demand)

    def _has_promised(self, row: str, demand: Demand) -> bool:
        promised = self.gpu_promised_milli.get(row, 0)
        if row == ANY_MODEL:  # what is guaranteed of a model is no guarantee of another
            promised -= sum(each for model, each in self.gpu_promised_milli.items() if model != ANY_MODEL)
        return 0 < promised >= self.gpu_used_milli.get(row, 0) + demand.gpus * WHOLE_GPU

    def _claim(self, row: str) -> int:
        reserved = self.gpu_reserved_milli.get(row, 0)
        return claim(self.gpu_used_milli.get(row, 0), reserved, self.gpu_kept_milli.get(row, 0))


class Book:
    """The accounts of all tenants, and the way from each to the root."""

    def __init__(self, tenants: Mapping[TenantId, TenantShare]) -> None:
        self._parents = {tenant_id: share.parent_id for tenant_id, share in tenants.items()}
        self._accounts = {tenant_id: Account.of(share) for tenant_id, share in tenants.items()}
        self._paths: dict[TenantId, tuple[Account, ...]] = {}

    def path(self, tenant_id: TenantId) -> tuple[Account, ...]:
        """The tenant's account, its parent's, and so on up to the root. Who is not known has no rights."""
        if tenant_id not in self._paths:
            path: dict[TenantId, Account] = {}
            step: TenantId | None = tenant_id
            while step is not None and step not in path:
                path[step] = self._accounts.setdefault(step, Account(step, 1, False, {}, {}, 0, 0))
                step = self._parents.get(step)
            self._paths[tenant_id] = tuple(path.values())
        return self._paths[tenant_id]

    def own(self) -> dict[TenantId, Account]:
        """What each tenant uses itself, without those below it."""
        own = {tenant_id: _unbounded_copy(account) for tenant_id, account in self._accounts.items()}
        for tenant_id, account in self._accounts.items():
            parent = own.get(self._parents.get(tenant_id) or TenantId(""))
            if parent is not None:
                parent.running -= account.running
                for row, used in account.gpu_used_milli.items():
                    parent.gpu_used_milli[row] = parent.gpu_used_milli.get(row, 0) - used
        return own

    def suspension(self, tenant_id: TenantId) -> Reason | None:
        """Why nothing of the tenant's may start at all."""
        for steps_up, account in enumerate(self.path(tenant_id)):
            if not account.is_active:
                return reasons.tenant_suspended(steps_up)
        return None

    def permitted(self, demand: Demand, models: Sequence[str]) -> tuple[str, ...] | Reason:
        """Those of `models` on which the quotas let it start now, in their order; the reason if there is none."""
        path = self.path(demand.tenant_id)
        running = room(path)
        if running.binding is not None and not running.holds(1):
            return reasons.quota_running(running.binding)
        if not demand.gpus:
            return ()
        rooms = {model: room(path, model) for model in models}
        permitted = tuple(model for model in models if rooms[model].holds(demand.gpus * WHOLE_GPU))
        bounds = [each.binding for each in rooms.values() if each.binding is not None]
        if not permitted and bounds:
            return reasons.quota_gpus(demand, max(bounds, key=lambda bound: bound.left))
        return permitted

    def charge(self, demand: Demand, model: str | None) -> None:
        """Count the job on its tenant and all above it."""
        claims: Mapping[str, int] | None = None
        for account in self.path(demand.tenant_id):
            claims = account.charge(demand.gpus * WHOLE_GPU, model, claims)

    def own_bound(self, tenant_id: TenantId, models: Iterable[str]) -> Bound | None:
        """The row of the tenant's own quota that leaves the least for these models."""
        own = self.path(tenant_id)[:1]
        bounds = [found for model in models if (found := room(own, model).binding) is not None]
        return min(bounds, key=lambda bound: bound.left, default=None)


class _Line:
    """A tenant's own jobs of one class, the oldest first."""

    def __init__(self, name: str, account: Account, demands: Sequence[Demand]) -> None:
        self.name = name
        self.account = account
        self._demands = list(reversed(demands))

    def take(self) -> Demand | None:
        """Its next job; None when there is no more."""
        return self._demands.pop() if self._demands else None

    def peek(self) -> Demand | None:
        """The job that comes next."""
        return self._demands[-1] if self._demands else None

    def arrange(self, totals: Mapping[str, int]) -> None:
        """Nothing is ordered by share below here."""

    def settle(self, totals: Mapping[str, int]) -> None:
        """The same."""


class _Branch:
    """A tenant and those below it that have jobs of the class."""

    def __init__(self, name: str, account: Account) -> None:
        self.name = name
        self.account = account
        self._children: list[_Line | _Branch] = []
        self._heap: list[tuple[Standing, _Line | _Branch]] = []

    def add(self, child: "_Line | _Branch") -> None:
        """Let a child take part."""
        self._children.append(child)

    def arrange(self, totals: Mapping[str, int]) -> None:
        """Put all children in their order, once each knows its next job."""
        for child in self._children:
            child.arrange(totals)
        self._heap = [(_standing(child, totals), child) for child in self._children]
        heapify(self._heap)

    def take(self) -> Demand | None:
        """The next job of the child that has least for its weight."""
        while self._heap:
            if (demand := self._heap[0][1].take()) is not None:
                return demand
            heappop(self._heap)
        return None

    def peek(self) -> Demand | None:
        """The job that comes next."""
        while self._heap:
            if (demand := self._heap[0][1].peek()) is not None:
                return demand
            heappop(self._heap)
        return None

    def settle(self, totals: Mapping[str, int]) -> None:
        """Put the child that gave the last job where its grown use and its next job belong; it still stands first."""
        child = self._heap[0][1]
        child.settle(totals)
        heapreplace(self._heap, (_standing(child, totals), child))


class FairQueue:
    """All queued jobs: by class, then by the tenants' weighted shares down the tree, then by age."""

    def __init__(self, snapshot: Snapshot, book: Book) -> None:
        self._book = book
        self._totals = _totals(snapshot)
        ordered = sorted(snapshot.queue, key=lambda demand: (-demand.priority, demand.submitted_at, demand.job_id))
        self._classes = [list(group) for _, group in groupby(ordered, key=lambda demand: demand.priority)][::-1]
        for demand in ordered:
            book.path(demand.tenant_id)
        self._own = book.own()
        self._root = _Branch("", _nobody())
        self._has_guarantees = any(any(share.gpu_promised_milli.values()) for share in snapshot.tenants.values())
        self._is_unsettled = False
        """Whether the last job was passed over."""

    def next(self) -> Demand | None:
        """The next job; each comes once."""
        if self._is_unsettled and self._has_guarantees:
            self._root.settle(self._totals)  # the one that was passed over may have stood first by a guarantee
        while (demand := self._root.take()) is None and self._classes:
            self._root = self._tree(self._classes.pop())
        self._is_unsettled = demand is not None
        return demand

    def charge(self, demand: Demand, model: str | None) -> None:
        """Count the job that came last as placed, on devices of `model`."""
        self._own[demand.tenant_id].charge(demand.gpus * WHOLE_GPU, model)
        self._book.charge(demand, model)
        self._root.settle(self._totals)
        self._is_unsettled = False

    def _tree(self, demands: Iterable[Demand]) -> _Branch:
        """The tenants that have jobs of one class, from the root down."""
        by_tenant: dict[TenantId, list[Demand]] = {}
        for demand in demands:
            by_tenant.setdefault(demand.tenant_id, []).append(demand)
        root = _Branch("", _nobody())
        branches: dict[tuple[TenantId, ...], _Branch] = {(): root}
        for tenant_id, own in by_tenant.items():
            way: tuple[TenantId, ...] = ()
            for account in reversed(self._book.path(tenant_id)):
                above, way = branches[way], (*way, account.tenant_id)
                if way not in branches:
                    branches[way] = _Branch(account.tenant_id, account)
                    above.add(branches[way])
            branches[way].add(_Line(tenant_id, self._own[tenant_id], own))
        root.arrange(self._totals)
        return root


def _nobody() -> Account:
    """What stands above all tenants."""
    return Account(TenantId(""), 1, True, {}, {}, None, 0)


def _standing(child: _Line | _Branch, totals: Mapping[str, int]) -> Standing:
    """What the tenant has for its weight: who has least is next."""
    account, following = child.account, child.peek()
    weight = max(account.weight, 1)
    used = account.gpu_used_milli.items()
    dominant = max((milli * SHARE_SCALE // totals.get(row, WHOLE_GPU) for row, milli in used), default=0)
    running = max(account.running, 0) * SHARE_SCALE
    is_borrowing = following is None or not account.owns(following)
    return (is_borrowing, max(dominant, 0) // weight, running // weight, account.served_at, child.name)


def _totals(snapshot: Snapshot) -> Mapping[str, int]:
    """Thousandths of GPUs in the cluster, by model and in all."""
    totals: dict[str, int] = {}
    for device in (device for node in snapshot.nodes for device in node.devices):
        for row in (device.model, ANY_MODEL):
            totals[row] = totals.get(row, 0) + WHOLE_GPU
    return totals


def _unbounded_copy(account: Account) -> Account:
    """A copy for a tenant's own jobs, which compete with its children at a weight of 1."""
    used = dict(account.gpu_used_milli)
    return Account(account.tenant_id, 1, True, {}, used, None, account.running, account.served_at)
