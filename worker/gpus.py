"""Reads the node's GPUs from NVML and prints them as one line of JSON: `python -m worker.gpus [DEADLINE_S]`.

The only importer of pynvml. Its calls can block for ever when a GPU hangs, so this runs in a process of its own, which
`gpu_probe` starts and gives up on. MIG slices and links between devices are not read.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pynvml

from worker.devices import UNREAD_MODEL, Device, DeviceProcess, Ecc, Health, Inventory

DEADLINE_S = 10.0

_UNSAID = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_FunctionNotFound,  # the driver is older than the question
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_NoData,
    pynvml.NVMLError_InsufficientSize,  # a list that grew while it was read
)
"""Answers that mean "not said", which is no fault of the device. Every other error is one."""

_BROKEN = (pynvml.NVMLError, UnicodeDecodeError)
"""What reading a broken device can raise: an error of NVML, or text that the bindings cannot decode."""

_PROCESS_LISTS = {
    "compute": (pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2),
    "graphics": (pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2),
    "mps": (pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2),
}

_RECOVERY_ACTIONS = {
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: "a reset of the GPU",
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: "a reboot of the node",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: "its peers to be drained",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "its peers to be drained and a reset of the GPU",
    pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN: "a recovery of its IMEX domain",
    pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET: "a reset of its PCIe bus",
    pynvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT: "a reboot of the system",
}


def read_inventory() -> Inventory:
    """All GPUs that NVML shows now. Without a driver or a GPU: none, and the reason."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return Inventory(problems=("no GPU driver here: libnvidia-ml.so.1 was not found",))
    except pynvml.NVMLError_DriverNotLoaded:
        return Inventory(problems=("no GPU driver here: NVML is installed, and the kernel's part is not loaded",))
    except pynvml.NVMLError as error:
        return Inventory(is_certain=False, problems=(f"NVML does not start: {error}",))
    try:
        return _read_all()
    except _BROKEN as error:
        return Inventory(is_certain=False, problems=(f"NVML does not list its GPUs: {error}",))
    finally:
        with suppress(pynvml.NVMLError):  # what was read stays true, and the process ends anyway
            pynvml.nvmlShutdown()


def main(arguments: list[str]) -> int:
    """Print the inventory; die by SIGALRM when that takes too long and nobody else has put an end to it."""
    signal.setitimer(signal.ITIMER_REAL, float(arguments[0]) if arguments else DEADLINE_S)
    with _output_of_our_own() as output:
        answer = json.dumps(asdict(read_inventory()))
        os.write(output, answer.encode() + b"\n")
    return 0


@contextmanager
def _output_of_our_own() -> Iterator[int]:
    """The standard output, out of reach of the library, which would write its warnings into the answer."""
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    yield output
    os.close(output)


def _read_all() -> Inventory:
    driver_version = _ask(pynvml.nvmlSystemGetDriverVersion)
    devices: dict[str, Device] = {}
    problems: list[str] = []
    count = pynvml.nvmlDeviceGetCount()
    if count == 0:
        problems.append("NVML works and shows no GPU")
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = str(pynvml.nvmlDeviceGetUUID(handle))
        except _BROKEN as error:
            problems.append(f"the GPU at index {index} does not say which it is: {error}")
            continue
        if uuid in devices:
            problems.append(f"two GPUs call themselves {uuid}; the one at index {index} is left out")
            continue
        devices[uuid] = _read_device(handle, uuid, index, driver_version, problems)
    return Inventory(
        devices=tuple(devices[uuid] for uuid in sorted(devices)),
        is_certain=len(devices) == count,
        driver_version=driver_version,
        nvml_version=_ask(pynvml.nvmlSystemGetNVMLVersion),
        cuda_driver_version=_cuda_version(_ask(pynvml.nvmlSystemGetCudaDriverVersion_v2)),
        problems=tuple(problems),
    )


def _read_device(handle: Any, uuid: str, index: int, driver_version: str | None, problems: list[str]) -> Device:
    """The device, or its UUID alone and the error it gave: one that fails half-way is not believed about the rest."""
    try:
        sick_because = _why_sick(handle)
        memory = _memory(handle)
        utilisation = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
        pci = _ask(pynvml.nvmlDeviceGetPciInfo, handle)
        device = Device(
            uuid=uuid,
            model=str(_ask(pynvml.nvmlDeviceGetName, handle) or UNREAD_MODEL).strip(),
            memory_bytes=0 if memory is None else int(memory.total),
            is_simulated=False,
            driver_version=driver_version,
            ecc=_ecc(handle),
            health=Health.SICK if sick_because else Health.OK,
            health_reason=sick_because or "",
            processes=_processes(handle),
            memory_used_bytes=None if memory is None else int(memory.used),
            utilisation_pct=None if utilisation is None else int(utilisation.gpu),
            pci_bus_id=None if pci is None else _text(pci.busId),
            index=index,
        )
        problems.extend(_weaknesses(handle, device))
    except _BROKEN as error:
        return _unread_device(uuid, index, driver_version, f"NVML cannot read it: {error}")
    return device


def _unread_device(uuid: str, index: int, driver_version: str | None, reason: str) -> Device:
    return Device(
        uuid=uuid,
        model=UNREAD_MODEL,
        memory_bytes=0,
        is_simulated=False,
        driver_version=driver_version,
        ecc=Ecc.UNSUPPORTED,
        health=Health.SICK,
        health_reason=reason,
        processes=None,
        memory_used_bytes=None,
        utilisation_pct=None,
        pci_bus_id=None,
        index=index,
    )


def _why_sick(handle: Any) -> str | None:
    """What the driver itself says must be repaired first. Single memory errors are not in it: the driver contains them,
    and a job may meet them without the device being worse for the next one."""
    values = _ask(pynvml.nvmlDeviceGetFieldValues, handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if values is not None and values[0].nvmlReturn == pynvml.NVML_SUCCESS:
        action = int(values[0].value.uiVal)
        if action != pynvml.NVML_GPU_RECOVERY_ACTION_NONE:
            return f"the driver asks for {_RECOVERY_ACTIONS.get(action, f'recovery action {action}')}"
    rows = _ask(pynvml.nvmlDeviceGetRemappedRows, handle)
    return "it could not replace a failed row of its memory" if rows is not None and rows[3] else None


def _weaknesses(handle: Any, device: Device) -> list[str]:
    """What an admin should know of a device that works."""
    rows = _ask(pynvml.nvmlDeviceGetRemappedRows, handle)
    found = []
    if device.ecc is Ecc.OFF:
        found.append(f"{device.uuid}: ECC is off, so errors of its memory go unseen")
    if rows is not None and rows[2]:
        found.append(f"{device.uuid}: a row of its memory waits to be replaced; reset it when it is idle")
    if device.processes is None:
        found.append(f"{device.uuid}: NVML does not say which processes use it, so it can never be found free")
    if device.memory_used_bytes is None:
        found.append(f"{device.uuid}: NVML does not say how much memory it uses, so it can never be found free")
    return found


def _memory(handle: Any) -> Any:
    """Total and used bytes. The second version, where there is one, leaves out what the driver reserves for itself."""
    newer = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return _ask(pynvml.nvmlDeviceGetMemoryInfo, handle) if newer is None else newer


def _ecc(handle: Any) -> Ecc:
    modes = _ask(pynvml.nvmlDeviceGetEccMode, handle)
    if modes is None:
        return Ecc.UNSUPPORTED
    return Ecc.ON if modes[0] == pynvml.NVML_FEATURE_ENABLED else Ecc.OFF


def _processes(handle: Any) -> tuple[DeviceProcess, ...] | None:
    """Every process on the device, of any kind, each once; None when not even those that compute are said."""
    lists = {kind: _process_list(handle, versions) for kind, versions in _PROCESS_LISTS.items()}
    if lists["compute"] is None:
        return None
    used: dict[int, int | None] = {}
    for entry in (entry for entries in lists.values() for entry in entries or []):
        pid = int(entry.pid)
        known, now = used.get(pid), entry.usedGpuMemory
        used[pid] = known if now is None else max(int(now), known or 0)
    return tuple(DeviceProcess(pid, used[pid], _process_name(pid)) for pid in sorted(used))


def _process_list(handle: Any, versions: tuple[Callable[..., Any], ...]) -> list[Any] | None:
    for version in versions:
        entries: list[Any] | None = _ask(version, handle)
        if entries is not None:
            return entries
    return None


def _process_name(pid: int) -> str | None:
    try:
        name = Path(f"/proc/{pid}/comm").read_bytes().strip()
    except OSError:
        return None  # it ended meanwhile, or lives in a pid namespace that is not ours
    return "".join(chr(byte) if 0x20 < byte < 0x7F else "?" for byte in name)


def _cuda_version(number: int | None) -> str | None:
    """NVML counts 12.8 as 12080."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    """NVML's answer, or None where it does not say.

    Raises:
        pynvml.NVMLError: the device, or the library, is out of order.
    """
    try:
        return question(*arguments)
    except _UNSAID:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
