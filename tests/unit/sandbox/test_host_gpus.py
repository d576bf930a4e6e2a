"""GPUs by UUID, never by an index; what is not on the host is not given."""

from pathlib import Path

import pytest

from sandbox.contract import DeviceGrant, SandboxFault
from sandbox.host_gpus import nodes_of

ONE, TWO = "GPU-11111111-aaaa", "GPU-22222222-bbbb"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for address, uuid, minor in (("0000:01:00.0", ONE, 1), ("0000:02:00.0", TWO, 0)):
        folder = tmp_path / "proc/driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nVideo BIOS: \t ??\nDevice Minor: \t {minor}\n"
        )
    (tmp_path / "dev").mkdir()
    for name in ("nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    return tmp_path


def test_a_gpu_has_its_own_node_and_the_shared_ones(host: Path) -> None:
    assert nodes_of((DeviceGrant(ONE, "H200", False),), host) == ("nvidia1", "nvidiactl", "nvidia-uvm")


def test_simulated_gpus_have_no_node(host: Path) -> None:
    assert nodes_of((DeviceGrant("SIM-1", "simulated", True),), host) == ()


def test_an_unknown_gpu_or_a_slice_is_not_given(host: Path) -> None:
    for uuid in ("GPU-3", "MIG-11111111", ""):
        with pytest.raises(SandboxFault):
            nodes_of((DeviceGrant(ONE, "H200", False), DeviceGrant(uuid, "H200", False)), host)
