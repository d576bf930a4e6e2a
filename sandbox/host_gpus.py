"""The device nodes of this host's GPUs, as NVIDIA's driver tells in /proc: for a sandbox that no toolkit serves."""

from pathlib import Path

from sandbox.contract import DeviceGrant, SandboxFault

ROOT = Path("/")
SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Needed beside any GPU's own node; they reach only GPUs whose own node can be opened."""


def nodes_of(devices: tuple[DeviceGrant, ...], root: Path = ROOT) -> tuple[str, ...]:
    """The names below /dev that these GPUs need; none for simulated ones.

    Raises:
        SandboxFault: one of them is not a whole GPU of this host.
    """
    real = [device for device in devices if not device.is_simulated]
    if not real:
        return ()
    minors = _minors(root)
    missing = sorted(device.uuid for device in real if device.uuid not in minors)
    if missing:
        raise SandboxFault(f"this host has no whole GPU {missing[0]}: the process level gives no other")
    shared = [name for name in SHARED if (root / "dev" / name).exists()]
    return (*(f"nvidia{minors[device.uuid]}" for device in real), *shared)


def _minors(root: Path) -> dict[str, int]:
    """Number of each GPU's device node, by UUID."""
    found = {}
    for file in (root / "proc/driver/nvidia/gpus").glob("*/information"):
        rows = dict(line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
        uuid, minor = rows.get("GPU UUID", "").strip(), rows.get("Device Minor", "").strip()
        if uuid and minor.isdigit():
            found[uuid] = int(minor)
    return found
