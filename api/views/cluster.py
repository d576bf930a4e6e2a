"""Nodes and devices, as they are shown."""

from corral.cluster import GpuAvailability, JoinTokenView, NodeGpuView, NodeView

from store.devices import Availability, NodeRecord
from store.tables import Gpu, JoinToken, Node


def gpu_availability(kind: Availability) -> GpuAvailability:
    """A kind of device."""
    return GpuAvailability(
        model=kind.model,
        memory_bytes=kind.memory_bytes,
        is_simulated=kind.is_simulated,
        total=kind.total,
        free=kind.free,
        usable=kind.usable,
    )


def node_view(record: NodeRecord) -> NodeView:
    """A node with its devices."""
    node = record.node
    return NodeView.model_validate(
        {
            "id": node.id,
            "name": node.name,
            "state": _state(node),
            "levels": node.levels,
            "level_reasons": {report["level"]: list(report["reasons"]) for report in node.level_reports},
            "driver_version": node.driver_version,
            "cuda_driver": node.cuda_driver,
            "cpus_milli": node.cpus_milli,
            "memory_bytes": node.memory_bytes,
            "scratch_bytes": node.scratch_bytes,
            "cpus_milli_used": node.cpus_milli_used,
            "memory_bytes_used": node.memory_bytes_used,
            "beat": node.beat,
            "last_beat_at": node.last_beat_us,
            "token_made_at": node.token_made_us,
            "revoked_at": node.revoked_us,
            "gpus": [_gpu(gpu) for gpu in record.gpus],
            "images": node.images,
        }
    )


def join_token_view(token: JoinToken, now: int) -> JoinTokenView:
    """A join token, without its secret."""
    state = "expired" if token.expires_us <= now else "open"
    if token.revoked_us is not None:
        state = "revoked"
    elif token.used_us is not None:
        state = "used"
    return JoinTokenView.model_validate(
        {
            "id": token.id,
            "node_name": token.node_name,
            "state": state,
            "created_at": token.created_us,
            "expires_at": token.expires_us,
            "used_at": token.used_us,
        }
    )


def _state(node: Node) -> str:
    """`unreachable` is what is seen of a node, not what an admin said of it; lost is final either way."""
    return node.state if node.state == "lost" or node.is_reachable else "unreachable"


def _gpu(gpu: Gpu) -> NodeGpuView:
    return NodeGpuView(
        id=gpu.id,
        uuid=gpu.uuid,
        model=gpu.model,
        memory_bytes=gpu.memory_bytes,
        is_simulated=gpu.is_simulated,
        health=gpu.health,
        health_reason=gpu.health_reason or gpu.state_reason,
        state=gpu.state,
        used_milli=gpu.used_milli,
    )
