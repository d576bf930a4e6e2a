"""Turns what the API ordered into what a sandbox backend is given, and keeps it so that a restart gives the same."""

from pathlib import Path
from typing import Any

from corral.node import Order

from domain.ids import AttemptId, Fence, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from sandbox.contract import DeviceGrant, LaunchOrder
from worker.settings import WorkerSettings


def journaled(order: Order, node_id: NodeId, claimed_us: int, boot_id: str, acked_us: int | None) -> dict[str, Any]:
    """The facts of the `claimed` stage.

    `acked_us` is when the last acknowledged heartbeat was sent: the job's patience with silence counts from there.
    """
    reach = order.max_unreachable_us
    return {
        "order": order.model_dump(mode="json"),
        "node_id": node_id,
        "claimed_us": claimed_us,
        "boot_id": boot_id,
        "unreachable_at_us": None if reach is None else (claimed_us if acked_us is None else acked_us) + reach,
    }


def ordered(facts: dict[str, Any]) -> Order:
    """The API's order, out of the journal."""
    return Order.model_validate(facts["order"])


def device_uuids(facts: dict[str, Any] | None) -> frozenset[str]:
    """The devices of an attempt; none while it is not claimed."""
    return frozenset() if facts is None else frozenset(device.uuid for device in ordered(facts).devices)


def launch_order(facts: dict[str, Any], folder: Path, settings: WorkerSettings) -> LaunchOrder:
    """What the backend is to make; the same at each call for the same journal."""
    order = ordered(facts)
    return LaunchOrder(
        attempt_id=AttemptId(order.attempt_id),
        fence=Fence(order.fence),
        job_id=JobId(order.job_id),
        tenant_id=TenantId(order.tenant_id),
        node_id=NodeId(facts["node_id"]),
        level=Level(order.level),
        image_kind=ImageKind(order.image_kind),
        image_reference=order.image_reference,
        command=tuple(order.command),
        env={**order.env, **platform_env(order)},
        cpus_milli=order.cpus_milli,
        memory_bytes=order.memory_bytes,
        shm_bytes=order.shm_bytes,
        scratch_bytes=order.scratch_bytes,
        output_bytes=order.output_bytes,
        pids_limit=settings.pids_limit,
        devices=tuple(DeviceGrant(d.uuid, d.model, d.is_simulated) for d in order.devices),
        input_dir=folder / "in" if order.inputs else None,
        state_dir=folder,
        time_limit_us=order.time_limit_us,
        grace_us=order.grace_us,
        max_unreachable_us=order.max_unreachable_us,
        unreachable_at_us=facts["unreachable_at_us"],
        log_bytes_max=settings.log_bytes_max,
        log_bytes_per_second=settings.log_bytes_per_second,
        secrets=tuple(order.secrets),
    )


def platform_env(order: Order) -> dict[str, str]:
    """What every job is told about itself; a tenant cannot set variables of these names."""
    env = {
        "CORRAL_JOB_ID": order.job_id,
        "CORRAL_ATTEMPT_ID": order.attempt_id,
        "CORRAL_GPUS": str(len(order.devices)),
        "CORRAL_GPU_MODELS": ",".join(sorted({device.model for device in order.devices})),
        "CORRAL_CPUS": str(-(-order.cpus_milli // 1000)),
        "CORRAL_MEMORY_BYTES": str(order.memory_bytes),
    }
    if any(device.is_simulated for device in order.devices):
        env["CORRAL_SIMULATED_GPUS"] = "1"
    return env
