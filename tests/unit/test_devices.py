"""When a device is free, what an inventory remembers, and that simulated devices are called so."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.devices import (
    BASELINE_TOLERANCE_BYTES,
    LONGEST_REASON,
    MOST_BASELINE_BYTES,
    UNREAD_MODEL,
    Device,
    DeviceProcess,
    Ecc,
    Health,
    Inventory,
    is_clean,
    learn_baseline,
    why_dirty,
)
from worker.simulated import SIMULATED_MODEL, chosen_inventory, simulated_inventory

MIB = 1024**2
IDLE_BYTES = 4 * MIB


def a_device(uuid: str = "GPU-a", **changes: Any) -> Device:
    device = Device(
        uuid=uuid,
        model="NVIDIA H200",
        memory_bytes=143771 * MIB,
        is_simulated=False,
        driver_version="570.86.15",
        ecc=Ecc.ON,
        health=Health.OK,
        health_reason="",
        processes=(),
        memory_used_bytes=IDLE_BYTES,
        utilisation_pct=0,
        pci_bus_id="00000000:41:00.0",
        index=0,
    )
    return replace(device, **changes)


def an_unread_device(uuid: str = "GPU-a", index: int = 0) -> Device:
    return a_device(uuid, model=UNREAD_MODEL, memory_bytes=0, pci_bus_id=None, index=index).sick("GPU is lost")


class TestFree:
    def test_an_idle_device_at_its_baseline_is_free(self) -> None:
        assert is_clean(a_device(), IDLE_BYTES, ())
        assert why_dirty(a_device(), IDLE_BYTES, ()) is None

    def test_a_process_of_a_sandbox_keeps_it_and_is_named(self) -> None:
        device = a_device(processes=(DeviceProcess(4711, 512 * MIB, "python3"),))
        assert why_dirty(device, IDLE_BYTES, {4711}) == (
            "process 4711 (python3), of a sandbox on this node, holds 512 MiB of its memory"
        )

    def test_a_foreign_process_keeps_it_and_is_named_as_such(self) -> None:
        device = a_device(processes=(DeviceProcess(4711, None),))
        assert why_dirty(device, IDLE_BYTES, {1}) == (
            "process 4711, of no sandbox on this node, holds an unknown amount of its memory"
        )

    @pytest.mark.parametrize(("above", "is_free"), [(0, True), (BASELINE_TOLERANCE_BYTES, True)])
    def test_the_driver_s_bookkeeping_is_tolerated(self, above: int, is_free: bool) -> None:
        assert is_clean(a_device(memory_used_bytes=IDLE_BYTES + above), IDLE_BYTES, ()) is is_free

    def test_memory_above_the_baseline_keeps_it(self) -> None:
        device = a_device(memory_used_bytes=IDLE_BYTES + BASELINE_TOLERANCE_BYTES + 1)
        assert why_dirty(device, IDLE_BYTES, ()) == (
            "68 MiB of its memory are used without a process; idle, it uses 4 MiB"
        )

    @pytest.mark.parametrize("changes", [{"processes": None}, {"memory_used_bytes": None}])
    def test_what_the_driver_does_not_say_counts_against_it(self, changes: dict[str, Any]) -> None:
        assert "does not say" in (why_dirty(a_device(**changes), IDLE_BYTES, ()) or "")

    def test_without_a_baseline_it_is_not_free(self) -> None:
        assert "never measured" in (why_dirty(a_device(), None, ()) or "")

    def test_a_sick_device_is_not_free(self) -> None:
        assert why_dirty(a_device().sick("GPU is lost"), IDLE_BYTES, ()) == "it is sick: GPU is lost"

    def test_a_crowd_of_processes_fits_into_a_reason(self) -> None:
        crowd = tuple(DeviceProcess(pid, MIB, "x" * 15) for pid in range(1000))
        reason = why_dirty(a_device(processes=crowd), IDLE_BYTES, ())
        assert reason is not None
        assert len(reason) <= LONGEST_REASON

    @given(
        used=st.none() | st.integers(0, 2**40),
        baseline=st.none() | st.integers(0, MOST_BASELINE_BYTES),
        processes=st.none()
        | st.lists(st.builds(DeviceProcess, st.integers(1, 2**22), st.none()), max_size=3).map(tuple),
        health=st.sampled_from(Health),
    )
    def test_free_always_means_seen_empty(
        self, used: int | None, baseline: int | None, processes: tuple[DeviceProcess, ...] | None, health: Health
    ) -> None:
        device = a_device(memory_used_bytes=used, processes=processes, health=health)
        if is_clean(device, baseline, {process.pid for process in processes or ()}):
            assert health is Health.OK
            assert processes == ()
            assert used is not None
            assert baseline is not None
            assert used <= baseline + BASELINE_TOLERANCE_BYTES


class TestBaseline:
    def test_it_is_what_an_idle_device_uses(self) -> None:
        assert learn_baseline(a_device()) == IDLE_BYTES

    @pytest.mark.parametrize(
        "busy",
        [
            a_device(processes=(DeviceProcess(1, 1),)),
            a_device(processes=None),
            a_device(memory_used_bytes=None),
            a_device(memory_used_bytes=MOST_BASELINE_BYTES + 1),
            a_device().sick("GPU is lost"),
        ],
        ids=["a process", "processes unsaid", "memory unsaid", "too much memory", "sick"],
    )
    def test_a_device_that_may_be_in_use_gives_none(self, busy: Device) -> None:
        assert learn_baseline(busy) is None


class TestMemoryOfDevices:
    def test_a_device_that_is_gone_stays_as_sick_with_its_identity(self) -> None:
        before = (a_device("GPU-a", index=0), a_device("GPU-b", index=1))
        now = Inventory(devices=before[:1], problems=("the GPU at index 1 does not say which it is: GPU is lost",))
        gone = now.remembering(before).device("GPU-b")
        assert gone is not None
        assert gone.is_sick
        assert (gone.model, gone.memory_bytes, gone.pci_bus_id) == ("NVIDIA H200", 143771 * MIB, "00000000:41:00.0")
        assert "last at index 1" in gone.health_reason
        assert "GPU is lost" in gone.health_reason

    def test_a_device_that_gives_only_its_uuid_keeps_its_identity(self) -> None:
        now = Inventory(devices=(an_unread_device(index=3),))
        kept = now.remembering([a_device()]).devices[0]
        assert (kept.model, kept.memory_bytes, kept.index) == ("NVIDIA H200", 143771 * MIB, 3)
        assert (kept.health, kept.health_reason) == (Health.SICK, "GPU is lost")
        assert kept.processes is None

    def test_a_device_never_read_is_listed_all_the_same(self) -> None:
        assert Inventory(devices=(an_unread_device(),)).remembering([]).devices[0].model == UNREAD_MODEL

    def test_a_device_that_is_back_is_believed_again(self) -> None:
        back = Inventory(devices=(a_device(),)).remembering([a_device().sick("GPU is lost")])
        assert back.devices == (a_device(),)

    def test_the_same_loss_seen_again_gives_the_same_reason(self) -> None:
        once = Inventory().remembering([a_device()])
        assert Inventory().remembering(once.devices) == once

    def test_silence_makes_all_sick_and_says_nothing_of_their_use(self) -> None:
        silent = Inventory(devices=(a_device("GPU-a"), a_device("GPU-b"))).unanswered("NVML does not answer")
        assert [device.health_reason for device in silent.devices] == ["NVML does not answer"] * 2
        assert all(device.processes is None and device.memory_used_bytes is None for device in silent.devices)
        assert not silent.is_certain


class TestSimulated:
    def test_they_are_called_simulated_and_always_free(self) -> None:
        inventory = simulated_inventory(3, "n1")
        assert [device.uuid for device in inventory.devices] == [f"SIMULATED-n1-{number}" for number in range(3)]
        assert {device.model for device in inventory.devices} == {SIMULATED_MODEL}
        assert all(device.is_simulated and is_clean(device, None, ()) for device in inventory.devices)

    def test_they_are_the_same_after_a_restart(self) -> None:
        assert simulated_inventory(12, "n1") == simulated_inventory(12, "n1")

    def test_a_machine_without_a_gpu_may_have_them(self) -> None:
        simulated = simulated_inventory(2, "n1")
        assert chosen_inventory(Inventory(problems=("no GPU driver here",)), simulated) == simulated

    def test_a_machine_with_a_gpu_never_has_them(self) -> None:
        real = Inventory(devices=(a_device().sick("GPU is lost"),))
        assert chosen_inventory(real, simulated_inventory(2, "n1")) == real

    def test_a_driver_that_hangs_is_no_machine_without_a_gpu(self) -> None:
        silent = Inventory().unanswered("NVML does not answer")
        assert chosen_inventory(silent, simulated_inventory(2, "n1")) == silent

    def test_none_asked_for_leaves_the_reason_why_there_is_none(self) -> None:
        none = Inventory(problems=("no GPU driver here",))
        assert chosen_inventory(none, simulated_inventory(0, "n1")) == none
