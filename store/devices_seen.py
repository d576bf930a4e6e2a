"""What a worker says of its devices, taken down without believing what is out of date."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from store.events import record
from store.ids import new_id
from store.tables import Gpu, Node


@dataclass(frozen=True, slots=True)
class DeviceSeen:
    """A device as its worker saw it."""

    uuid: str
    model: str
    memory_bytes: int
    is_simulated: bool
    health: str
    health_reason: str
    is_clean: bool
    clean_reason: str
    generation: int | None
    """The generation that the worker knew when it looked; None for one that never heard of any."""


def see_devices(session: Session, node_id: str, seen: Sequence[DeviceSeen]) -> bool:
    """Bring the node's devices up to date; one that it no longer shows is absent. Whether a device became usable."""
    known = {
        gpu.uuid: gpu
        for gpu in session.exec(select(Gpu).where(Gpu.node_id == node_id).order_by(col(Gpu.id)).with_for_update())
    }
    is_news = False
    for device in seen:
        gpu = known.pop(device.uuid, None)
        became_usable = _add(session, node_id, device) if gpu is None else _update(session, gpu, device)
        is_news = is_news or became_usable
    for gone in known.values():
        if gone.state != "absent":
            _change(session, gone, "absent", "its node no longer shows it", gone.health, gone.health_reason)
    return is_news


def _add(session: Session, node_id: str, device: DeviceSeen) -> bool:
    elsewhere = session.exec(select(Gpu).where(Gpu.uuid == device.uuid)).first()
    if elsewhere is not None:
        if elsewhere.used_milli or device.is_simulated or not _is_given_up(session, elsewhere):
            record(session, "gpu_claimed_twice", node_id=node_id, gpu_id=elsewhere.id, text=f"{device.uuid} is held")
            return False
        elsewhere.node_id = node_id
        elsewhere.generation += 1
        _change(session, elsewhere, "dirty", "it moved here from another node", device.health, device.health_reason)
        return False
    gpu = Gpu(
        id=new_id("gpu"),
        node_id=node_id,
        uuid=device.uuid,
        model=device.model,
        memory_bytes=device.memory_bytes,
        is_simulated=device.is_simulated,
        health=device.health,
        health_reason=device.health_reason,
        state="clean" if device.is_clean else "dirty",
        state_reason=device.clean_reason,
    )
    session.add(gpu)
    session.flush()
    record(session, "gpu_found", node_id=node_id, gpu_id=gpu.id, data={"uuid": gpu.uuid, "model": gpu.model})
    return True


def _is_given_up(session: Session, gpu: Gpu) -> bool:
    """Whether its node shows it no more, or is gone for good. Else a node could take the others' devices by name."""
    return gpu.state == "absent" or session.get_one(Node, gpu.node_id).state == "lost"


def _update(session: Session, gpu: Gpu, device: DeviceSeen) -> bool:
    gpu.model, gpu.memory_bytes = device.model, device.memory_bytes
    state, reason = gpu.state, gpu.state_reason
    if gpu.used_milli == 0 and state == "absent":
        state, reason = "dirty", "it came back and was not looked at yet"
    elif gpu.used_milli == 0 and device.generation == gpu.generation:
        state, reason = ("clean", "") if device.is_clean else ("dirty", device.clean_reason)
    elif gpu.used_milli and state == "absent":
        state, reason = "dirty", "held"
    was_usable = gpu.state == "clean" and gpu.health == "ok"
    if (state, device.health) != (gpu.state, gpu.health):
        _change(session, gpu, state, reason, device.health, device.health_reason)
    gpu.state_reason, gpu.health_reason = reason, device.health_reason
    return not was_usable and gpu.state == "clean" and gpu.health == "ok"


def _change(session: Session, gpu: Gpu, state: str, reason: str, health: str, health_reason: str) -> None:
    gpu.state, gpu.state_reason = state, reason
    gpu.health, gpu.health_reason = health, health_reason
    session.flush()
    record(
        session,
        "gpu_changed",
        node_id=gpu.node_id,
        gpu_id=gpu.id,
        text=reason or health_reason,
        data={"uuid": gpu.uuid, "state": state, "health": health},
    )
