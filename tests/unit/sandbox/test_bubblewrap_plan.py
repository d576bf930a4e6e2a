"""What bubblewrap is told: walls for every job, the order's sizes, nothing of the host but what a program needs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domain.ids import AttemptId, Fence, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from sandbox.bubblewrap_plan import Bounds, Ground, arguments, python_outside_usr, runner_plan
from sandbox.contract import LaunchOrder, SandboxFault

UID = 64_002
ORDER = LaunchOrder(
    attempt_id=AttemptId("att_1"),
    fence=Fence(1),
    job_id=JobId("job_1"),
    tenant_id=TenantId("ten_1"),
    node_id=NodeId("nod_1"),
    level=Level.PROCESS,
    image_kind=ImageKind.HOST,
    image_reference="host",
    command=("python3", "train.py"),
    env={"NAME": "value"},
    cpus_milli=1000,
    memory_bytes=1 << 30,
    shm_bytes=1 << 20,
    scratch_bytes=1 << 21,
    output_bytes=1 << 22,
    pids_limit=64,
    devices=(),
    input_dir=Path("/state/inputs"),
    state_dir=Path("/state/att_1"),
    time_limit_us=1,
    grace_us=1,
    max_unreachable_us=None,
    unreachable_at_us=None,
    log_bytes_max=1,
    log_bytes_per_second=1,
)
GROUND = Ground(
    program_dirs=(Path("/opt/bwrap"),),
    program="/bwrap",
    run_as=UID,
    uid=UID,
    gid=UID,
    host_links={"bin": "usr/bin", "lib64": None},
    masked={"/proc/keys": False, "/proc/acpi": True},
    host_files=("/etc/ld.so.cache",),
    python=Path("/root/python"),
)
BOUNDS = Bounds((), (), 64)


def words(order: LaunchOrder = ORDER) -> list[Any]:
    return list(arguments(order, GROUND))


def follows(found: list[Any], *wanted: Any) -> bool:
    return any(tuple(found[at : at + len(wanted)]) == wanted for at in range(len(found)))


@pytest.mark.parametrize(
    "wall",
    ["--unshare-all", "--unshare-user", "--disable-userns", "--clearenv", "--new-session", "--die-with-parent"],
)
def test_every_wall_stands(wall: str) -> None:
    assert wall in words()


def test_all_capabilities_are_dropped_and_the_root_is_closed() -> None:
    assert follows(words(), "--cap-drop", "ALL")
    assert follows(words(), "--remount-ro", "/")
    assert follows(words(), "--remount-ro", "/dev")
    assert follows(words(), "--remount-ro", "/proc/1")


def test_sizes_are_the_orders() -> None:
    for path, size in (("/scratch", 1 << 21), ("/out", 1 << 22), ("/dev/shm", 1 << 20)):
        assert follows(words(), "--size", str(size), "--tmpfs", path)
    assert "/scratch" not in words(replace(ORDER, scratch_bytes=0))


def test_an_unlimited_size_cannot_be_asked_for_by_nothing() -> None:
    assert "0" not in words(replace(ORDER, shm_bytes=0, scratch_bytes=0))


def test_nothing_can_be_bound_for_writing() -> None:
    assert "--bind" not in words()
    assert not any(str(word).startswith("--dev-bind") for word in words())


def test_of_the_state_folder_only_the_gate_and_our_etc_are_shown() -> None:
    sources = [word["source"] for word in words() if isinstance(word, dict)]
    shown = {source for source in sources if source.startswith("/state/att_1")}
    assert shown == {f"/state/att_1/etc/{name}" for name in ("passwd", "group", "hosts", "nsswitch.conf")} | {
        "/state/att_1/gate"
    }
    assert not any(isinstance(word, str) and "/state" in word for word in words())


def test_of_the_host_only_these_are_shown() -> None:
    found = words()
    bound = {found[at + 1] for at, word in enumerate(found) if word == "--ro-bind" and isinstance(found[at + 1], str)}
    assert bound == {"/usr", "/lib64", "/etc/ld.so.cache", "/dev/null"}


def test_the_hosts_python_comes_first_in_the_path() -> None:
    found = words()
    assert found[found.index("PATH") + 1].startswith("/root/python/bin:")


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
def test_what_steers_loaders_is_refused(name: str) -> None:
    with pytest.raises(SandboxFault, match=name):
        runner_plan(replace(ORDER, env={name: "x"}), GROUND, BOUNDS)


@pytest.mark.parametrize("name", ["memory_bytes", "cpus_milli", "pids_limit", "output_bytes"])
def test_an_order_without_a_limit_is_refused(name: str) -> None:
    with pytest.raises(SandboxFault):
        runner_plan(replace(ORDER, **{name: 0}), GROUND, BOUNDS)


def test_a_job_of_root_runs_as_another_user() -> None:
    assert runner_plan(ORDER, GROUND, BOUNDS)["run_as"] == [UID, UID]
    assert runner_plan(ORDER, replace(GROUND, run_as=None), BOUNDS)["run_as"] is None


@pytest.mark.parametrize(
    ("prefix", "found"),
    [("/usr", None), ("/usr/local", None), ("/", None), ("/home", None), ("/opt/python", Path("/opt/python"))],
)
def test_the_agents_python_is_shown_where_a_job_could_not_see_it(prefix: str, found: Path | None) -> None:
    assert python_outside_usr(prefix) == found
