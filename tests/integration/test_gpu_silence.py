"""A driver, a GPU or a library that does not answer: the agent goes on, and nothing piles up."""

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.nvml_standin.standin import SYSTEM, Standin, a_gpu, a_standin, built_library, uuid_of
from worker.devices import Inventory
from worker.gpu_probe import GpuProbe

A, B = uuid_of("a"), uuid_of("b")
FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def standin(nvml_library: Path, tmp_path: Path) -> Standin:
    return a_standin(nvml_library, tmp_path)


@pytest.fixture
def probe(standin: Standin) -> GpuProbe:
    return GpuProbe(library_dir=standin.folder)


def a_hasty_probe(standin: Standin, deadline_s: float = 2.5) -> GpuProbe:
    return GpuProbe(library_dir=standin.folder, deadline_s=deadline_s)


def reasons(inventory: Inventory) -> dict[str, str]:
    return {device.uuid: device.health_reason for device in inventory.devices}


def our_children() -> set[int]:
    """Processes that this one started and that are still there, zombies included."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()
    return {int(pid) for pid in children.split()}


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def until(condition: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit, f"waited in vain: {what}"
        threading.Event().wait(0.01)


@pytest.fixture
def earlier_children() -> set[int]:
    """Processes that other tests of this worker may still have."""
    return our_children()


class TestSilence:
    @pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlShutdown"])
    def test_a_driver_that_never_answers_makes_all_sick_in_time(
        self, standin: Standin, function: str, earlier_children: set[int]
    ) -> None:
        probe = a_hasty_probe(standin)
        standin.shows(a_gpu("a"), a_gpu("b"))
        probe.read()
        standin.shows(a_gpu("a"), a_gpu("b"), system=(*SYSTEM, f"hang = {function}"))
        began = time.monotonic()
        inventory = probe.read()
        assert time.monotonic() - began < 4.5
        assert set(reasons(inventory)) == {A, B}
        assert all("NVML does not answer" in reason for reason in reasons(inventory).values())
        assert {device.model for device in inventory.devices} == {"NVIDIA H200"}
        assert our_children() <= earlier_children

    def test_one_gpu_that_hangs_and_then_recovers(self, standin: Standin) -> None:
        probe = a_hasty_probe(standin)
        standin.shows(a_gpu("a"), a_gpu("b"))
        probe.read()
        standin.shows(a_gpu("a"), a_gpu("b", "hang = nvmlDeviceGetMemoryInfo_v2"))
        assert all(device.is_sick for device in probe.read().devices)
        standin.shows(a_gpu("a"), a_gpu("b"))
        assert not any(device.is_sick for device in probe.read().devices)

    def test_a_first_look_that_hangs_is_empty_and_uncertain(self, standin: Standin) -> None:
        standin.shows(a_gpu("a", "hang = nvmlDeviceGetName"))
        inventory = a_hasty_probe(standin).read()
        assert inventory.devices == ()
        assert not inventory.is_certain
        assert "NVML does not answer" in inventory.problems[0]

    def test_hanging_again_and_again_leaves_no_process_and_no_descriptor(
        self, standin: Standin, earlier_children: set[int]
    ) -> None:
        standin.shows(a_gpu("a", "hang = nvmlDeviceGetName"))
        probe = a_hasty_probe(standin, deadline_s=0.6)
        probe.read()
        gc.collect()
        before = open_descriptors()
        for _ in range(3):
            probe.read()
        assert open_descriptors() == before
        assert our_children() <= earlier_children

    def test_a_library_that_crashes_makes_all_sick(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a"))
        probe.read()
        standin.shows(a_gpu("a", "crash = nvmlDeviceGetName"))
        assert "ended by signal 6" in probe.read().devices[0].health_reason

    def test_callers_at_once_get_one_child_at_a_time(self, standin: Standin, probe: GpuProbe) -> None:
        standin.shows(a_gpu("a"))
        answers: list[Inventory] = []
        callers = [threading.Thread(target=lambda: answers.append(probe.read())) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert [inventory.devices[0].uuid for inventory in answers] == [A] * 4

    def test_a_child_stuck_in_the_kernel_is_not_joined_by_a_second(self, standin: Standin) -> None:
        probe = a_hasty_probe(standin)
        standin.shows(a_gpu("a"))
        probe.read()
        standin.shows(a_gpu("a", "hang = nvmlDeviceGetName"))
        answers: list[Inventory] = []
        with a_freezer() as freeze:
            caller = threading.Thread(target=lambda: answers.append(probe.read()))
            caller.start()
            freeze(lambda: child_of_thread(caller))
            caller.join()
            began = time.monotonic()
            answers.append(probe.read())
            assert time.monotonic() - began < 0.5
            assert "stuck in the driver" in answers[-1].devices[0].health_reason
        standin.shows(a_gpu("a"))
        until(lambda: not probe.read().devices[0].is_sick, "the probe to look again once the stuck child is gone")


def child_of_thread(thread: threading.Thread) -> int | None:
    """A process that this thread started and that already runs the stand-in's script."""
    try:
        pids = Path(f"/proc/self/task/{thread.native_id}/children").read_text().split()
        return next((int(pid) for pid in pids if b"worker.gpus" in Path(f"/proc/{pid}/cmdline").read_bytes()), None)
    except OSError:
        return None


@contextmanager
def a_freezer() -> Iterator[Callable[[Callable[[], int | None]], None]]:
    """Holds a process as a stuck driver would: SIGKILL does not end it. Only the first cgroup hierarchy can do this."""
    group = FREEZER / f"corral-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup v1 freezer that we may use: {error}")

    def freeze(find: Callable[[], int | None]) -> None:
        until(lambda: find() is not None, "the child to start")
        (group / "tasks").write_text(str(find()))
        (group / "freezer.state").write_text("FROZEN")

    try:
        yield freeze
    finally:
        (group / "freezer.state").write_text("THAWED")
        until(lambda: not (group / "tasks").read_text().strip(), "the frozen child to go")
        group.rmdir()
