"""What the agent sees of its GPUs when they, their driver or the driver's library misbehave: a real child process
that loads a stand-in for NVML through the real bindings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nvml_standin.standin import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    LIB_RM_VERSION_MISMATCH,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    Standin,
    a_gpu,
    a_standin,
    built_library,
    uuid_of,
)
from worker.devices import UNREAD_MODEL, Ecc, Health, Inventory, learn_baseline, why_dirty
from worker.gpu_probe import GpuProbe

MIB = 1024**2
A, B, C = uuid_of("a"), uuid_of("b"), uuid_of("c")


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def standin(nvml_library: Path, tmp_path: Path) -> Standin:
    return a_standin(nvml_library, tmp_path)


@pytest.fixture
def probe(standin: Standin) -> GpuProbe:
    return GpuProbe(library_dir=standin.folder)


def reasons(inventory: Inventory) -> dict[str, str]:
    return {device.uuid: device.health_reason for device in inventory.devices}


class TestReading:
    def test_a_healthy_gpu_is_read_whole(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", "utilisation = 35", "compute = 999999 512"))
        inventory = probe.read()
        device = inventory.devices[0]
        assert (inventory.driver_version, inventory.nvml_version) == ("570.86.15", "12.570.86.15")
        assert inventory.cuda_driver_version == "12.8"
        assert inventory.problems == ()
        assert (device.uuid, device.model, device.index) == (A, "NVIDIA H200", 0)
        assert (device.memory_bytes, device.memory_used_bytes) == (143771 * MIB, 4 * MIB)
        assert (device.ecc, device.health, device.utilisation_pct) == (Ecc.ON, Health.OK, 35)
        assert device.pci_bus_id == "00000000:61:00.0"
        assert not device.is_simulated
        assert [(process.pid, process.used_memory_bytes) for process in device.processes or ()] == [(999999, 512 * MIB)]

    def test_processes_of_every_kind_are_seen_and_each_once(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", "compute = 999998 5", "graphics = 999998 9", "graphics = 999997 1", "mps = 999996 -1"))
        seen = probe.read().devices[0].processes or ()
        assert [(process.pid, process.used_memory_bytes) for process in seen] == [
            (999996, None),
            (999997, MIB),
            (999998, 9 * MIB),
        ]

    def test_a_process_is_named(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", f"compute = {os.getpid()} 5"))
        (process,) = probe.read().devices[0].processes or ()
        assert process.name == Path("/proc/self/comm").read_text().strip()

    def test_a_device_about_which_nothing_is_said_is_listed_and_never_free(
        self, standin: Standin, probe: GpuProbe
    ) -> None:
        standin.shows([f"uuid = {A}", f"fail = * {NOT_SUPPORTED}"], system=())
        inventory = probe.read()
        device = inventory.devices[0]
        assert (device.health, device.ecc) == (Health.OK, Ecc.UNSUPPORTED)
        assert (device.processes, device.memory_used_bytes, device.utilisation_pct) == (None, None, None)
        assert (inventory.driver_version, inventory.cuda_driver_version) == (None, None)
        assert why_dirty(device, 0, ()) is not None
        assert any("never be found free" in problem for problem in inventory.problems)

    @pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND])
    @pytest.mark.parametrize(
        "function",
        [
            "nvmlDeviceGetEccMode",
            "nvmlDeviceGetUtilizationRates",
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetPciInfo_v3",
            "nvmlDeviceGetGraphicsRunningProcesses_v3",
            "nvmlDeviceGetMPSComputeRunningProcesses_v3",
            "nvmlDeviceGetFieldValues",
            "nvmlDeviceGetRemappedRows",
        ],
    )
    def test_what_is_not_said_is_no_sickness(self, standin: Standin, probe: GpuProbe, function: str, code: int) -> None:
        standin.shows(a_gpu("a", f"fail = {function} {code}"))
        device = probe.read().devices[0]
        assert device.health is Health.OK
        assert device.memory_bytes == 143771 * MIB
        assert device.processes == ()

    def test_an_older_driver_counts_its_reserve_as_used(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", f"fail = nvmlDeviceGetMemoryInfo_v2 {FUNCTION_NOT_FOUND}"))
        device = probe.read().devices[0]
        assert device.memory_used_bytes == 604 * MIB
        assert why_dirty(device, learn_baseline(device), ()) is None

    def test_ecc_off_is_told(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", ecc="off"), a_gpu("b"))
        inventory = probe.read()
        assert [device.ecc for device in inventory.devices] == [Ecc.OFF, Ecc.ON]
        assert inventory.problems == (f"{A}: ECC is off, so errors of its memory go unseen",)

    def test_a_library_that_talks_does_not_spoil_the_answer(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", "chatter = nvmlDeviceGetName"))
        assert probe.read().devices[0].model == "NVIDIA H200"


class TestNothingThere:
    def test_no_gpu_is_an_empty_inventory_with_the_reason(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows()
        inventory = probe.read()
        assert (inventory.devices, inventory.problems) == ((), ("NVML works and shows no GPU",))
        assert inventory.is_certain

    def test_no_driver_is_an_empty_inventory_with_the_reason(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(system=(f"fail = nvmlInitWithFlags {DRIVER_NOT_LOADED}",))
        inventory = probe.read()
        assert inventory.devices == ()
        assert inventory.is_certain
        assert "the kernel's part is not loaded" in inventory.problems[0]

    def test_no_library_is_an_empty_inventory_with_the_reason(self, standin: Standin, probe: GpuProbe) -> None:
        (standin.folder / "libnvidia-ml.so.1").write_bytes(b"no library")
        inventory = probe.read()
        assert inventory.devices == ()
        assert "libnvidia-ml.so.1" in inventory.problems[0]

    def test_a_driver_half_way_through_an_update_loses_no_device(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a"))
        probe.read()
        standin.shows(a_gpu("a"), system=(f"fail = nvmlInitWithFlags {LIB_RM_VERSION_MISMATCH}",))
        inventory = probe.read()
        assert not inventory.is_certain
        assert inventory.devices[0].is_sick
        assert "NVML does not start" in inventory.devices[0].health_reason


class TestSickness:
    @pytest.mark.parametrize(
        "how",
        [
            f"fail = * {GPU_IS_LOST}",
            f"fail = nvmlDeviceGetMemoryInfo_v2 {GPU_IS_LOST}",
            f"fail = nvmlDeviceGetComputeRunningProcesses_v3 {GPU_IS_LOST}",
            f"fail = nvmlDeviceGetHandleByIndex_v2 {GPU_IS_LOST}",
            f"fail = nvmlDeviceGetUUID {GPU_IS_LOST}",
            f"fail = nvmlDeviceGetName {UNKNOWN}",
        ],
    )
    def test_a_gpu_off_the_bus_is_sick_with_its_last_identity_and_its_neighbour_is_well(
        self, standin: Standin, probe: GpuProbe, how: str
    ) -> None:
        standin.shows(a_gpu("a"), a_gpu("b"))
        probe.read()
        standin.shows(a_gpu("a", how), a_gpu("b"))
        lost, well = probe.read().devices
        assert (lost.uuid, lost.model, lost.memory_bytes) == (A, "NVIDIA H200", 143771 * MIB)
        assert (lost.health, well.health) == (Health.SICK, Health.OK)
        assert "GPU is lost" in lost.health_reason or "Unknown Error" in lost.health_reason
        assert why_dirty(lost, 4 * MIB, ()) is not None

    def test_a_gpu_lost_before_it_was_ever_read_is_listed(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", f"fail = * {GPU_IS_LOST}"))
        device = probe.read().devices[0]
        assert (device.uuid, device.model, device.health) == (A, UNREAD_MODEL, Health.SICK)

    def test_a_gpu_that_never_said_who_it_is_is_a_problem(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", f"fail = nvmlDeviceGetUUID {GPU_IS_LOST}"), a_gpu("b"))
        inventory = probe.read()
        assert [device.uuid for device in inventory.devices] == [B]
        assert not inventory.is_certain
        assert "index 0" in inventory.problems[0]

    def test_a_gpu_that_is_repaired_is_well_again(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", f"fail = * {GPU_IS_LOST}"))
        assert probe.read().devices[0].is_sick
        standin.shows(a_gpu("a"))
        assert not probe.read().devices[0].is_sick

    @pytest.mark.parametrize(
        ("line", "reason"),
        [("recovery = 1", "a reset of the GPU"), ("recovery = 99", "recovery action 99"), ("remap_failed = 1", "row")],
    )
    def test_what_the_driver_wants_repaired_is_sick(
        self, standin: Standin, probe: GpuProbe, line: str, reason: str
    ) -> None:
        standin.shows(a_gpu("a", line))
        device = probe.read().devices[0]
        assert device.is_sick
        assert reason in device.health_reason
        assert device.model == "NVIDIA H200"

    def test_a_row_that_waits_to_be_replaced_is_told_and_no_sickness(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", "remap_pending = 1"))
        inventory = probe.read()
        assert not inventory.devices[0].is_sick
        assert "reset it when it is idle" in inventory.problems[0]

    def test_two_gpus_of_one_uuid_are_not_two_devices(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a"), a_gpu("a"))
        inventory = probe.read()
        assert len(inventory.devices) == 1
        assert not inventory.is_certain


class TestRestarts:
    def test_fewer_devices_after_a_restart_of_the_driver(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a"), a_gpu("b"), a_gpu("c"))
        probe.read()
        standin.shows(a_gpu("a"), a_gpu("c"))
        inventory = probe.read()
        assert [(device.uuid, device.is_sick) for device in inventory.devices] == [(A, False), (B, True), (C, False)]
        assert "last at index 1" in reasons(inventory)[B]

    def test_fewer_devices_after_a_restart_of_the_agent(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a"), a_gpu("b"))
        journal = probe.read().devices
        standin.shows(a_gpu("a"))
        restarted = GpuProbe(library_dir=standin.folder, last_known=journal)
        assert [(device.uuid, device.is_sick) for device in restarted.read().devices] == [(A, False), (B, True)]

    def test_a_device_taken_out_on_purpose_can_be_forgotten(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a"), a_gpu("b"))
        probe.read()
        standin.shows(a_gpu("a"))
        probe.read()
        probe.forget(B)
        assert [device.uuid for device in probe.read().devices] == [A]

    def test_swapped_indexes_change_no_identity(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a", used_mib=4), a_gpu("b", "compute = 999999 512", used_mib=516))
        before = probe.read()
        standin.shows(a_gpu("b", "compute = 999999 512", used_mib=516), a_gpu("a", used_mib=4))
        after = probe.read()
        assert [(device.uuid, device.index) for device in before.devices] == [(A, 0), (B, 1)]
        assert [(device.uuid, device.index) for device in after.devices] == [(A, 1), (B, 0)]
        assert [device.memory_used_bytes for device in after.devices] == [4 * MIB, 516 * MIB]
        assert not any(device.is_sick for device in after.devices)


class TestFree:
    def test_a_process_left_behind_keeps_the_device(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a"))
        baseline = learn_baseline(probe.read().devices[0])
        standin.shows(a_gpu("a", "compute = 999999 512", used_mib=516))
        assert "process 999999" in (why_dirty(probe.read().devices[0], baseline, ()) or "")
        standin.shows(a_gpu("a"))
        assert why_dirty(probe.read().devices[0], baseline, ()) is None

    def test_memory_above_baseline_keeps_the_device(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a"))
        baseline = learn_baseline(probe.read().devices[0])
        standin.shows(a_gpu("a", used_mib=900))
        assert "900 MiB" in (why_dirty(probe.read().devices[0], baseline, ()) or "")


class TestByHand:
    def test_it_prints_one_line_of_json(self, standin: Standin) -> None:
        standin.shows(a_gpu("a"))
        environment = {"LD_LIBRARY_PATH": str(standin.folder), "NVML_STANDIN_SCRIPT": str(standin.script)}
        printed = subprocess.run(
            [sys.executable, "-m", "worker.gpus"], env=environment, check=True, timeout=20, capture_output=True
        ).stdout
        assert json.loads(printed)["devices"][0]["uuid"] == A

    def test_nobody_is_left_hanging_without_a_parent_s_deadline(self, standin: Standin) -> None:
        standin.shows(a_gpu("a", "hang = nvmlDeviceGetName"))
        ended = subprocess.run(
            [sys.executable, "-m", "worker.gpus", "0.5"],
            env={"LD_LIBRARY_PATH": str(standin.folder)},
            check=False,
            timeout=20,
            capture_output=True,
        )
        assert ended.returncode == -14
