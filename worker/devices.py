"""What a node knows of its GPUs, as values: each device, the whole inventory, and when a device is free.

Nothing here asks a driver. The inventory is kept apart from use: a device that stops answering stays listed, as sick.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

UNREAD_MODEL = "unknown"
"""The model of a device that answered to its UUID and to nothing else, and was never read before."""

BASELINE_TOLERANCE_BYTES = 64 * 1024**2
"""How far above its baseline an idle device may stand: the driver's bookkeeping moves by a few MiB, while the smallest
CUDA context takes more than 100 MiB."""

MOST_BASELINE_BYTES = 1024**3
"""More than this is no baseline, whoever holds it: else memory that a past job left behind would become the measure."""


LONGEST_REASON = 500
"""Characters; what the API takes of a reason."""


class Health(StrEnum):
    """Whether new work may be placed on a device."""

    OK = "ok"
    SICK = "sick"


class Ecc(StrEnum):
    """Whether the device's memory corrects its errors."""

    ON = "on"
    OFF = "off"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """A process that holds the device open, under its id in the host's pid namespace."""

    pid: int
    used_memory_bytes: int | None
    """None where the driver does not say."""
    name: str | None = None
    """As the process calls itself, printable characters only: a tenant can choose it, so it proves nothing."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU as it was last seen. Its UUID is its identity; the index may change with every start of the driver."""

    uuid: str
    model: str
    memory_bytes: int
    """0 where the driver does not say."""
    is_simulated: bool
    driver_version: str | None
    ecc: Ecc
    health: Health
    health_reason: str
    """Why it is sick; empty when it is not."""
    processes: tuple[DeviceProcess, ...] | None
    """None where the driver does not say, which is not the same as none."""
    memory_used_bytes: int | None
    """Without what the driver reserves for itself, where it tells the two apart."""
    utilisation_pct: int | None
    pci_bus_id: str | None
    index: int
    """The driver's number for it at this moment; good for messages, for nothing else."""

    @property
    def is_sick(self) -> bool:
        return self.health is Health.SICK

    @property
    def is_unread(self) -> bool:
        """Whether it gave its UUID and then failed, so that nothing else here was read from it."""
        return self.is_sick and self.model == UNREAD_MODEL

    def sick(self, reason: str) -> "Device":
        """The same identity, known to be out of order; what was in use on it is no longer known."""
        return replace(
            self,
            health=Health.SICK,
            health_reason=_short(reason),
            processes=None,
            memory_used_bytes=None,
            utilisation_pct=None,
        )


@dataclass(frozen=True, slots=True)
class Inventory:
    """The devices of a node at one moment, sorted by UUID, and what was wrong with the looking."""

    devices: tuple[Device, ...] = ()
    is_certain: bool = True
    """Whether the driver could tell of every GPU. An empty inventory that is certain means a machine without one."""
    driver_version: str | None = None
    nvml_version: str | None = None
    cuda_driver_version: str | None = None
    """Newest CUDA version that the driver runs, such as "12.8"."""
    problems: tuple[str, ...] = ()
    """For people: why it is empty, which device could not be read, what weakens one that works."""

    def device(self, uuid: str) -> Device | None:
        return next((device for device in self.devices if device.uuid == uuid), None)

    def remembering(self, known: Iterable[Device]) -> "Inventory":
        """This inventory, with every known device that it lacks or could not read: sick, with its last identity."""
        before = {device.uuid: device for device in known}
        seen = {device.uuid: _with_identity(device, before.get(device.uuid)) for device in self.devices}
        lost = {uuid: device.sick(self._why_missing(device)) for uuid, device in before.items() if uuid not in seen}
        everything = seen | lost
        return replace(self, devices=tuple(everything[uuid] for uuid in sorted(everything)))

    def unanswered(self, reason: str) -> "Inventory":
        """The same devices, all sick for this reason: nobody could look at them."""
        devices = tuple(device.sick(reason) for device in self.devices)
        return replace(self, devices=devices, is_certain=False, problems=(reason,))

    def _why_missing(self, device: Device) -> str:
        where = f"index {device.index}" + (f", PCI {device.pci_bus_id}" if device.pci_bus_id else "")
        causes = f" ({'; '.join(self.problems)})" if self.problems else ""
        return f"the driver no longer shows it; it was last at {where}{causes}"


def learn_baseline(device: Device) -> int | None:
    """The memory, in bytes, that this device uses when idle; None when it is not idle enough to tell.

    Learnt for each device at the agent's start, before anything runs there, and kept in the node's journal for a start
    that finds jobs running. Refused of a device that is sick, that has
    a process or may have one, or that uses more than MOST_BASELINE_BYTES.
    """
    if device.is_sick or device.processes != () or device.memory_used_bytes is None:
        return None
    return device.memory_used_bytes if device.memory_used_bytes <= MOST_BASELINE_BYTES else None


def is_clean(device: Device, baseline_bytes: int | None, pids_of_ours: Collection[int]) -> bool:
    """Whether the next holder may have the device. `why_dirty` says why not."""
    return why_dirty(device, baseline_bytes, pids_of_ours) is None


def why_dirty(device: Device, baseline_bytes: int | None, pids_of_ours: Collection[int]) -> str | None:
    """Why the device is not free, or None when it is.

    Free means: healthy, no process at all, and memory within BASELINE_TOLERANCE_BYTES of the baseline. What the driver
    does not say counts against it. `pids_of_ours` are the host's process ids inside this node's sandboxes; they only
    decide what a process is called. A simulated device holds nothing, so it is always free.
    """
    if device.is_simulated:
        return None
    if device.is_sick:
        return f"it is sick: {device.health_reason}"
    if device.processes is None:
        return "the driver does not say which processes use it"
    if device.processes:
        return _short("; ".join(_described(process, pids_of_ours) for process in device.processes))
    return _memory_above(device.memory_used_bytes, baseline_bytes)


def _with_identity(device: Device, known: Device | None) -> Device:
    if known is None or not device.is_unread:
        return device
    return replace(known.sick(device.health_reason), index=device.index)


def _described(process: DeviceProcess, pids_of_ours: Collection[int]) -> str:
    whose = "of a sandbox on this node" if process.pid in pids_of_ours else "of no sandbox on this node"
    name = f" ({process.name})" if process.name else ""
    used = "an unknown amount" if process.used_memory_bytes is None else _mib(process.used_memory_bytes)
    return f"process {process.pid}{name}, {whose}, holds {used} of its memory"


def _memory_above(used_bytes: int | None, baseline_bytes: int | None) -> str | None:
    if used_bytes is None:
        return "the driver does not say how much of its memory is used"
    if baseline_bytes is None:
        return f"its idle memory was never measured; {_mib(used_bytes)} are used now"
    if used_bytes > baseline_bytes + BASELINE_TOLERANCE_BYTES:
        return f"{_mib(used_bytes)} of its memory are used without a process; idle, it uses {_mib(baseline_bytes)}"
    return None


def _short(reason: str) -> str:
    return reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 1]}…"


def _mib(amount_bytes: int) -> str:
    return f"{amount_bytes / 1024**2:.0f} MiB"
