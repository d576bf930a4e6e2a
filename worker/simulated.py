"""Devices that do not exist, for machines without a GPU. They are called simulated wherever they show."""

from worker.devices import Device, Ecc, Health, Inventory

SIMULATED_MODEL = "simulated-gpu"
SIMULATED_MEMORY_BYTES = 16 * 1024**3
"""What jobs that ask for memory are fitted against; nothing is allocated."""


def simulated_inventory(count: int, node_name: str) -> Inventory:
    """`count` devices whose UUIDs are the same at every start of the node of this name."""
    devices = [_simulated_device(number, node_name) for number in range(count)]
    return Inventory(
        devices=tuple(sorted(devices, key=lambda device: device.uuid)),
        problems=(f"{count} simulated devices stand in for GPUs",) if count else (),
    )


def chosen_inventory(real: Inventory, simulated: Inventory) -> Inventory:
    """Simulated devices where it is certain that there is no GPU, else the real ones: never both.

    Decided once, at the agent's start: a machine whose driver hangs has GPUs, and does not turn into a simulation.
    """
    has_none = real.is_certain and not real.devices
    return simulated if has_none and simulated.devices else real


def _simulated_device(number: int, node_name: str) -> Device:
    return Device(
        uuid=f"SIMULATED-{node_name}-{number}",
        model=SIMULATED_MODEL,
        memory_bytes=SIMULATED_MEMORY_BYTES,
        is_simulated=True,
        driver_version=None,
        ecc=Ecc.UNSUPPORTED,
        health=Health.OK,
        health_reason="",
        processes=(),
        memory_used_bytes=0,
        utilisation_pct=None,
        pci_bus_id=None,
        index=number,
    )
