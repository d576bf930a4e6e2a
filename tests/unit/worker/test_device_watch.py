"""What the API is told of devices: by a look, about the generation that was known then, never clean while held."""

from pathlib import Path

import pytest

from sandbox.contract import DeviceGrant
from worker.device_watch import DeviceWatch, why_not_these
from worker.devices import Device, DeviceProcess, Ecc, Health, Inventory

MIB = 1 << 20


def a_device(uuid: str = "GPU-1", used_mib: int = 4, **changes: object) -> Device:
    facts: dict[str, object] = {
        "uuid": uuid,
        "model": "H100",
        "memory_bytes": 80 << 30,
        "is_simulated": False,
        "driver_version": "570",
        "ecc": Ecc.ON,
        "health": Health.OK,
        "health_reason": "",
        "processes": (),
        "memory_used_bytes": used_mib * MIB,
        "utilisation_pct": 0,
        "pci_bus_id": None,
        "index": 0,
    }
    return Device(**facts | changes)  # type: ignore[arg-type]


class Rack:
    """Devices that a test changes between looks."""

    def __init__(self, *devices: Device) -> None:
        self.devices = devices

    def read(self) -> Inventory:
        return Inventory(devices=self.devices)


def nobody() -> frozenset[int]:
    return frozenset()


def test_an_idle_device_is_clean_and_a_held_one_is_not(tmp_path: Path) -> None:
    watch = DeviceWatch(Rack(a_device()).read, tmp_path)
    watch.look((), nobody)
    assert watch.reports(())[0].is_clean
    held = watch.reports({"GPU-1"})[0]
    assert not held.is_clean
    assert "holds it" in held.clean_reason


def test_memory_that_a_job_left_is_seen_also_by_the_next_agent(tmp_path: Path) -> None:
    rack = Rack(a_device(used_mib=4))
    DeviceWatch(rack.read, tmp_path).look((), nobody)
    rack.devices = (a_device(used_mib=900),)
    after_restart = DeviceWatch(rack.read, tmp_path)
    after_restart.look((), nobody)
    assert not after_restart.reports(())[0].is_clean


def test_a_held_device_teaches_no_baseline(tmp_path: Path) -> None:
    rack = Rack(a_device(used_mib=900))
    watch = DeviceWatch(rack.read, tmp_path)
    watch.look({"GPU-1"}, nobody)
    assert "never measured" in watch.reports(())[0].clean_reason


def test_a_foreign_process_is_named(tmp_path: Path) -> None:
    rack = Rack(a_device())
    watch = DeviceWatch(rack.read, tmp_path)
    watch.look((), nobody)
    rack.devices = (a_device(processes=(DeviceProcess(77, 5 * MIB, "miner"),)),)
    watch.look((), nobody)
    assert "miner" in watch.reports(())[0].clean_reason


def test_a_finding_is_about_the_generation_known_before_the_look(tmp_path: Path) -> None:
    watch = DeviceWatch(Rack(a_device()).read, tmp_path)
    watch.look((), nobody)
    watch.learn_generations({"GPU-1": 4})
    assert watch.reports(())[0].generation is None
    watch.look((), nobody)
    assert watch.reports(())[0].generation == 4


def test_damaged_baselines_are_measured_again(tmp_path: Path) -> None:
    (tmp_path / "baselines.json").write_text("{")
    watch = DeviceWatch(Rack(a_device()).read, tmp_path)
    watch.look((), nobody)
    assert watch.reports(())[0].is_clean


@pytest.mark.parametrize(
    ("granted", "word"),
    [
        ([DeviceGrant("GPU-1", "H100", False)], None),
        ([DeviceGrant("GPU-2", "H100", False)], "not on this node"),
        ([DeviceGrant("GPU-1", "A100", False)], "assigned as A100"),
        ([DeviceGrant("GPU-1", "H100", True)], "assigned as"),
        ([DeviceGrant("GPU-1", "H100", False)] * 2, "twice"),
        ([DeviceGrant("GPU-3", "H100", False)], "sick"),
    ],
)
def test_only_exactly_the_assigned_devices_will_do(granted: list[DeviceGrant], word: str | None) -> None:
    present = Inventory(devices=(a_device(), a_device("GPU-3").sick("it hangs")))
    why = why_not_these(granted, present)
    assert why is None if word is None else word in (why or "")
