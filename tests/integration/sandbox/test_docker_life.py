"""A container's life as a sandbox: made once, verified or refused, found after a crash, and nothing left of it."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import engines
import pytest

from domain.ids import Fence, NodeId
from sandbox.collect import CollectLimits, Collector
from sandbox.contract import EngineAway, LaunchOrder, SandboxFault, SandboxId, StopReason, WeakerThanAsked
from sandbox.engine import DockerSandbox
from sandbox.engine_facts import static_busybox
from sandbox.engine_held import HeldNotes
from sandbox.engine_probe import PROBE_TENANT
from sandbox.local_image import ensure_busybox_image

NODE = NodeId(f"nod_test_life_{os.getpid()}")
MIB = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def docker(root: Path, tmp_path: Path) -> Iterator[DockerSandbox]:
    """A backend that must leave nothing behind, whatever the test did with it."""
    sandbox = DockerSandbox(root, NODE, engines.need_engine())
    yield sandbox
    ids = engines.container_ids(NODE)
    for held in sandbox.list():
        sandbox.remove(held.sandbox_id, None)
    sandbox.close()
    assert engines.leftovers(root, NODE, ids) == engines.NOTHING
    engines.until_no_runner(tmp_path)


@pytest.fixture
def order(docker: DockerSandbox, tmp_path: Path) -> Callable[..., LaunchOrder]:
    image = ensure_busybox_image(docker.engine, static_busybox())
    return lambda *command, **changes: engines.an_order(tmp_path, image, *command, **({"node_id": NODE} | changes))


def test_a_level_is_offered_after_one_really_ran(docker: DockerSandbox) -> None:
    probe = docker.probe()
    assert probe.is_offered
    assert probe.runtime == "runc"
    assert probe.runtime_version
    assert docker.list() == ()


def test_what_a_dead_probe_left_is_removed_by_the_next(
    docker: DockerSandbox, order: Callable[..., LaunchOrder]
) -> None:
    docker.create(order("true", tenant_id=PROBE_TENANT))
    assert docker.list() == ()
    assert engines.container_ids(NODE)
    assert docker.probe().is_offered
    assert not engines.container_ids(NODE)


def test_without_an_engine_nothing_is_offered_and_nothing_is_said_of_sandboxes(root: Path, tmp_path: Path) -> None:
    engines.need_engine()
    away = DockerSandbox(root, NODE, str(tmp_path / "no.sock"))
    probe = away.probe()
    assert not probe.is_offered
    assert "cannot be reached" in probe.reasons[0]
    for ask in (away.list, lambda: away.pids(SandboxId("corral-x")), lambda: away.remove(SandboxId("corral-x"), None)):
        with pytest.raises(EngineAway):
            ask()
    away.close()


def test_a_runtime_that_is_missing_is_never_replaced(
    docker: DockerSandbox, root: Path, order: Callable[..., LaunchOrder]
) -> None:
    other = DockerSandbox(root, NODE, engines.SOCKET, runtime="runsc")
    runtimes = docker.engine.info()["Runtimes"]
    if "runsc" in runtimes:
        pytest.skip("this engine has the other runtime")
    probe = other.probe()
    assert not probe.is_offered
    assert "no runtime runsc" in probe.reasons[0]
    with pytest.raises(SandboxFault):
        other.create(order("true"))
    assert other.list() == ()
    other.close()


def test_making_it_twice_is_making_it_once(docker: DockerSandbox, order: Callable[..., LaunchOrder]) -> None:
    asked = order("sh", "-c", "echo ran >>/out/times")
    first = docker.create(asked)
    ids = engines.container_ids(NODE)
    assert docker.create(asked) == first
    assert engines.container_ids(NODE) == ids
    docker.verify(first, asked)
    docker.start(first, asked)
    docker.start(first, asked)
    assert docker.wait(first, asked, 30) is not None
    assert docker.create(asked) == first  # it has ended: it is found, and not run again
    ended = docker.wait(first, asked, 30)
    assert ended is not None
    assert ended.exit_code == 0
    fd = docker.output_fd(first, asked)
    assert [os.read(file.fd, 100) for file in Collector(fd, CollectLimits()).files()] == [b"ran\n"]
    os.close(fd)


def test_another_backend_object_carries_on(
    docker: DockerSandbox, root: Path, order: Callable[..., LaunchOrder]
) -> None:
    """As the agent does after a restart."""
    asked = order("sh", "-c", "exit 7")
    made = docker.create(asked)
    second = DockerSandbox(root, NODE, engines.SOCKET)
    assert second.create(asked) == made
    second.verify(made, asked)
    second.start(made, asked)
    ended = second.wait(made, asked, 30)
    assert ended is not None
    assert ended.exit_code == 7
    second.remove(made, asked)
    second.close()


def test_another_fence_does_not_get_the_sandbox(docker: DockerSandbox, order: Callable[..., LaunchOrder]) -> None:
    asked = order("sleep", "60")
    made = docker.create(asked)
    with pytest.raises(SandboxFault, match="another fence"):
        docker.create(replace(asked, fence=Fence(2)))
    assert [held.sandbox_id for held in docker.list()] == [made]


def test_what_is_held_is_listed_alive_or_not(docker: DockerSandbox, order: Callable[..., LaunchOrder]) -> None:
    asked = order("true")
    made = docker.create(asked)
    (held,) = docker.list()
    assert (held.sandbox_id, held.attempt_id, held.fence) == (made, asked.attempt_id, asked.fence)
    assert (held.tenant_id, held.state_dir, held.is_alive) == (asked.tenant_id, asked.state_dir, True)
    docker.start(made, asked)
    docker.wait(made, asked, 30)
    assert [one.is_alive for one in docker.list()] == [False]
    docker.remove(made, None)
    docker.remove(made, None)
    assert docker.list() == ()


def test_a_volume_without_a_container_is_listed_and_removed(
    docker: DockerSandbox, order: Callable[..., LaunchOrder]
) -> None:
    """As after a crash between the two."""
    made = docker.create(order("sleep", "60"))
    docker.engine.remove(made)
    (held,) = docker.list()
    assert (held.sandbox_id, held.is_alive) == (made, False)
    docker.remove(made, None)
    assert docker.list() == ()


def test_a_note_alone_is_listed(docker: DockerSandbox, root: Path) -> None:
    labels = {"corral.attempt": "att_1", "corral.fence": "3", "corral.tenant": "ten_1", "corral.state": "/nowhere"}
    HeldNotes(root / "held").note("corral-att_1", labels)
    assert [held.sandbox_id for held in docker.list()] == ["corral-att_1"]
    docker.remove(SandboxId("corral-att_1"), None)


def test_another_node_s_sandboxes_are_not_ours(
    docker: DockerSandbox, tmp_path: Path, order: Callable[..., LaunchOrder]
) -> None:
    docker.create(order("sleep", "60"))
    other = DockerSandbox(tmp_path / "other", NodeId("nod_test_other"), engines.SOCKET)
    assert other.list() == ()
    other.close()


@pytest.mark.parametrize(
    "change",
    [
        {"memory_bytes": 64 * MIB},
        {"pids_limit": 8},
        {"cpus_milli": 100},
        {"shm_bytes": MIB},
        {"output_bytes": 8 * MIB},
        {"env": {"A": "other"}},
        {"command": ("other",)},
        {"fence": Fence(9)},
        {"input_dir": Path("/usr")},
    ],
)
def test_a_gate_that_is_not_as_asked_is_refused(
    docker: DockerSandbox, order: Callable[..., LaunchOrder], change: dict[str, object]
) -> None:
    asked = order("true")
    made = docker.create(asked)
    with pytest.raises(WeakerThanAsked):
        docker.verify(made, replace(asked, **change))  # type: ignore[arg-type]
    docker.verify(made, asked)


@pytest.mark.parametrize(
    "flags", [["--pids-limit", "1000"], ["--memory", "1g", "--memory-swap", "2g"], ["--cpus", "2"]]
)
def test_a_container_that_was_loosened_after_it_was_made_is_refused(
    docker: DockerSandbox, order: Callable[..., LaunchOrder], flags: list[str]
) -> None:
    asked = order("true", cpus_milli=500)
    made = docker.create(asked)
    subprocess.run(["docker", "update", *flags, made], check=True, capture_output=True)
    with pytest.raises(WeakerThanAsked):
        docker.verify(made, asked)


def test_the_processes_inside_are_known(docker: DockerSandbox, order: Callable[..., LaunchOrder]) -> None:
    asked = order("sleep", "60")
    made = docker.create(asked)
    docker.verify(made, asked)
    docker.start(made, asked)
    commands = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in docker.pids(made)}
    assert "docker-init" in commands
    assert len(commands) == 2
    docker.stop(made, asked, StopReason.CANCELLED, 0)
    ended = docker.wait(made, asked, 30)
    assert ended is not None
    assert (ended.exit_code, ended.stop_reason) == (137, StopReason.CANCELLED)
    assert docker.pids(made) == frozenset()


def test_an_engine_that_refuses_leaves_nothing(docker: DockerSandbox, order: Callable[..., LaunchOrder]) -> None:
    with pytest.raises(SandboxFault):
        docker.create(order("true", memory_bytes=1000))  # less than the engine accepts
    assert docker.list() == ()


def test_a_hostile_output_is_collected_from_the_volume(
    docker: DockerSandbox, order: Callable[..., LaunchOrder]
) -> None:
    script = """
        cd /out; echo good >good; mkdir d; echo deep >d/deep
        ln -s /etc/shadow shadow; ln -s /out/../../.. up; ln good hard; mkfifo fifo
        truncate -s 4T sparse 2>/dev/null || truncate -s 1G sparse
        cp /bin/busybox suid; chmod 6755 suid; touch "$(printf 'new\\nline')" "$(printf 'bad\\377')"
        mknod device c 1 3; i=0; while [ $i -lt 300 ]; do : >many$i; i=$((i+1)); done; chmod 000 d/deep
    """
    asked = order("sh", "-c", script)
    made = docker.create(asked)
    docker.verify(made, asked)
    docker.start(made, asked)
    assert docker.wait(made, asked, 60) is not None
    fd = docker.output_fd(made, asked)
    collector = Collector(fd, CollectLimits())
    taken = {file.name: os.read(file.fd, 5) for file in collector.files()}
    os.close(fd)
    skipped = {one.name for one in collector.skipped}
    assert taken["d/deep"] == b"deep\n"
    assert {"shadow", "up", "hard", "good", "fifo", "sparse", "new\\nline", "bad\\xff"} <= skipped
    assert len([name for name in taken if name.startswith("many")]) == 300
    assert "device" not in taken
    assert taken["suid"] == b"\x7fELF\x02"
