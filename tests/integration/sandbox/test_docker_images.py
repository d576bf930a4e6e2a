"""Images that try to reach past their files: refused or made harmless, and the record shows which."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import engines
import pytest

from domain.ids import NodeId, TenantId
from sandbox.contract import Exit, ImageMissing, ImageRefused, IsolationRecord, SandboxFault
from sandbox.engine import DockerSandbox
from sandbox.job_user import job_uid

NODE = NodeId(f"nod_test_images_{os.getpid()}")
Ran = tuple[Exit, IsolationRecord, str]


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(tmp_path_factory.mktemp("docker"), NODE, engines.need_engine())
    yield sandbox
    sandbox.close()


@pytest.fixture
def image() -> Iterator[Callable[..., str]]:
    made: list[str] = []

    def make(architecture: str | None = None, **config: Any) -> str:
        made.append(engines.an_image(config, architecture))
        return made[-1]

    yield make
    for one in made:
        engines.forget_image(one)


def ran(docker: DockerSandbox, folder: Path, image: str, *command: str) -> Ran:
    """The end, the record and the log of one command."""
    order = engines.an_order(folder, image, *command, node_id=NODE)
    sandbox = docker.create(order)
    try:
        record = docker.verify(sandbox, order)
        docker.start(sandbox, order)
        ended = docker.wait(sandbox, order, 30)
    finally:
        docker.remove(sandbox, order)
    assert ended is not None
    return ended, record, (order.state_dir / "log").read_text()


@pytest.mark.parametrize(
    "config",
    [
        {"Volumes": {"/data": {}}},
        {"Env": ["LD_PRELOAD=/evil.so"]},
        {"Env": ["NVIDIA_MIG_MONITOR_DEVICES=all"]},
        {"OnBuild": ["RUN true"]},
    ],
)
def test_refused_and_nothing_is_left(
    docker: DockerSandbox, image: Callable[..., str], tmp_path: Path, config: dict[str, Any]
) -> None:
    with pytest.raises(ImageRefused):
        docker.create(engines.an_order(tmp_path, image(**config), "true", node_id=NODE))
    assert docker.list() == ()


def test_another_machine_s_image_is_refused(docker: DockerSandbox, image: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(ImageRefused, match="the image is for linux/s390x"):
        docker.create(engines.an_order(tmp_path, image("s390x"), "true", node_id=NODE))


@pytest.mark.parametrize(
    ("reference", "why"),
    [("sha256:" + "0" * 64, "not on this node"), ("127.0.0.1:9/x@sha256:" + "0" * 64, "cannot be pulled")],
)
def test_an_image_that_is_not_to_be_had_is_no_fault_of_the_tenant(
    docker: DockerSandbox, tmp_path: Path, reference: str, why: str
) -> None:
    with pytest.raises(ImageMissing, match=why):
        docker.create(engines.an_order(tmp_path, reference, "true", node_id=NODE))


@pytest.mark.parametrize("reference", ["corral/busybox", "busybox:latest", "file:///etc/passwd", "../../etc", ""])
def test_a_reference_that_pins_nothing_is_refused(docker: DockerSandbox, tmp_path: Path, reference: str) -> None:
    with pytest.raises(SandboxFault):
        docker.create(engines.an_order(tmp_path, reference, "true", node_id=NODE))
    assert docker.list() == ()


def facts(record: IsolationRecord) -> dict[str, str]:
    return {fact.name: fact.found for fact in record.facts}


def test_root_becomes_the_job_s_own_user(docker: DockerSandbox, image: Callable[..., str], tmp_path: Path) -> None:
    ended, record, log = ran(docker, tmp_path, image(User="root"), "id", "-u")
    assert (ended.exit_code, log) == (0, f"{job_uid(TenantId('ten_test'))}\n")
    assert facts(record)["image USER"] == "the job's own user"


def test_a_health_check_never_runs(docker: DockerSandbox, image: Callable[..., str], tmp_path: Path) -> None:
    check = {"Test": ["CMD-SHELL", "echo checked >/out/checked"], "Interval": 1_000_000_000, "Timeout": 1_000_000_000}
    ended, record, log = ran(docker, tmp_path, image(Healthcheck=check), "sh", "-c", "sleep 2.5; ls /out")
    assert (ended.exit_code, log) == (0, "")
    assert facts(record)["image HEALTHCHECK"] == "NONE"


def test_steering_variables_are_taken_out_and_plain_ones_stay(
    docker: DockerSandbox, image: Callable[..., str], tmp_path: Path
) -> None:
    env = ["LD_LIBRARY_PATH=/evil", "NVIDIA_VISIBLE_DEVICES=all", "CUDA_VISIBLE_DEVICES=0", "PLAIN=kept"]
    ended, record, log = ran(docker, tmp_path, image(Env=env), "env")
    lines = set(log.splitlines())
    assert ended.exit_code == 0
    assert {"PLAIN=kept", "NVIDIA_VISIBLE_DEVICES=void", "HOME=/tmp"} <= lines
    assert not any(line.startswith(("LD_", "CUDA_")) for line in lines)
    assert facts(record)["image ENV LD_LIBRARY_PATH"] == "taken out"


def test_an_entrypoint_a_command_and_a_directory_count_for_nothing(
    docker: DockerSandbox, image: Callable[..., str], tmp_path: Path
) -> None:
    made = image(Entrypoint=["/bin/false"], Cmd=["x"], WorkingDir="/proc/self/fd/8")
    ended, record, log = ran(docker, tmp_path, made, "pwd")
    assert (ended.exit_code, log) == (0, "/scratch\n")
    assert facts(record)["image ENTRYPOINT"] == "the job's command alone"


def test_an_odd_stop_signal_does_not_count(docker: DockerSandbox, image: Callable[..., str], tmp_path: Path) -> None:
    _, record, _ = ran(docker, tmp_path, image(StopSignal="SIGWINCH"), "true")
    assert facts(record)["image STOPSIGNAL"] == "SIGTERM"
    assert facts(record)["engine.StopSignal"] == "SIGTERM"


def test_a_volume_that_is_covered_is_ours(docker: DockerSandbox, image: Callable[..., str], tmp_path: Path) -> None:
    ended, record, log = ran(docker, tmp_path, image(Volumes={"/out": {}}), "sh", "-c", "df -m /out | tail -1")
    assert ended.exit_code == 0
    assert int(log.split()[1]) <= 16
    assert facts(record)["mount /out is ours"] == "True"
