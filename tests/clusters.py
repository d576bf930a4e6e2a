"""Builders of what the scheduler sees, each at its simplest; a test names only what it is about."""

from collections.abc import Iterable, Mapping
from typing import Any

from domain.ids import GpuId, Instant, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from domain.scheduling.snapshot import Demand, Device, Node, Snapshot, TenantShare

GIB = 1 << 30
CONTAINERS = frozenset({Level.CONTAINER, Level.GVISOR})


def a_device(name: str, model: str = "H100", memory_gib: int = 80, is_free: bool = True) -> Device:
    """A device whose UUID sorts by its name."""
    return Device(GpuId(f"gpu_{name}"), f"GPU-{name}", model, memory_gib * GIB, is_free)


def devices(node: str, count: int, model: str = "H100", memory_gib: int = 80, held: int = 0) -> tuple[Device, ...]:
    """So many devices of a node, the first of them held."""
    return tuple(a_device(f"{node}-{model}-{i}", model, memory_gib, is_free=i >= held) for i in range(count))


def a_node(name: str, *held_devices: Device, **changes: Any) -> Node:
    """An empty, open node with 64 CPUs and 512 GiB."""
    facts: dict[str, Any] = {
        "node_id": NodeId(f"nod_{name}"),
        "name": name,
        "is_open": True,
        "levels": CONTAINERS,
        "cuda_driver": (12, 8),
        "cpus_milli": 64_000,
        "memory_bytes": 512 * GIB,
        "scratch_bytes": 1024 * GIB,
        "devices": held_devices,
    } | changes
    for what in ("cpus_milli", "memory_bytes", "scratch_bytes"):
        facts.setdefault(f"{what}_free", facts[what])
    return Node(**facts)


def a_tenant(name: str, parent: str | None = None, **changes: Any) -> TenantShare:
    """An active tenant without limits."""
    facts: dict[str, Any] = {
        "tenant_id": TenantId(name),
        "parent_id": TenantId(parent) if parent else None,
        "weight": 1,
        "is_active": True,
        "gpu_limit_milli": {"*": None},
        "gpu_used_milli": {},
        "running_limit": None,
        "running": 0,
    } | changes
    return TenantShare(**facts)


def a_demand(name: str, tenant: str = "ten", **changes: Any) -> Demand:
    """A job for one CPU and no GPU; its age goes by its name unless told otherwise."""
    facts: dict[str, Any] = {
        "job_id": JobId(name),
        "tenant_id": TenantId(tenant),
        "priority": 1,
        "submitted_at": Instant(0),
        "not_before": Instant(0),
        "gpus": 0,
        "models": (),
        "gpu_memory_min_bytes": 0,
        "cpus_milli": 1000,
        "memory_bytes": GIB,
        "scratch_bytes": 0,
        "least_level": Level.CONTAINER,
        "allowed_levels": CONTAINERS,
        "image_kind": ImageKind.ENGINE,
        "min_cuda": None,
        "avoid": frozenset(),
    } | changes
    return Demand(**facts)


def a_snapshot(
    nodes: Iterable[Node], queue: Iterable[Demand], tenants: Iterable[TenantShare] | None = None
) -> Snapshot:
    """A moment of a cluster; without tenants, one called `ten`."""
    shares = (a_tenant("ten"),) if tenants is None else tuple(tenants)
    by_id: Mapping[TenantId, TenantShare] = {share.tenant_id: share for share in shares}
    return Snapshot(tuple(nodes), by_id, tuple(queue))
