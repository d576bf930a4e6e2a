"""The whole table of what a job's container gets, line by line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domain.ids import AttemptId, Fence, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from sandbox.contract import DeviceGrant, LaunchOrder, SandboxFault
from sandbox.hardening import HostBounds, Setting, container_name, create_body, labels_of, volumes_of
from sandbox.image_gate import AdmittedImage
from sandbox.job_user import PLENTY, job_uid

IMAGE = AdmittedImage("sha256:" + "a" * 64, (), (), ())
MIB = 1 << 20
UID = job_uid(TenantId("ten_1"))
GPU = DeviceGrant("GPU-1111", "H100", is_simulated=False)
SIMULATED = DeviceGrant("SIM-1", "H100", is_simulated=True)
BOUNDS = HostBounds(cpus=8, nofile_max=1 << 20, has_cdi=False, uids=PLENTY)
PLACES = {"out": Path("/var/lib/corral/mounts/a/out"), "scratch": Path("/var/lib/corral/mounts/a/scratch")}
SETTING = Setting("runc", '{"defaultAction":"SCMP_ACT_ERRNO"}', Path("/state/gate"), ("/.corral/busybox", "sh"), PLACES)


def an_order(**changes: Any) -> LaunchOrder:
    order = LaunchOrder(
        attempt_id=AttemptId("att_1"),
        fence=Fence(7),
        job_id=JobId("job_1"),
        tenant_id=TenantId("ten_1"),
        node_id=NodeId("nod_1"),
        level=Level.CONTAINER,
        image_kind=ImageKind.ENGINE,
        image_reference=IMAGE.image_id,
        command=("python", "train.py"),
        env={"EPOCHS": "10"},
        cpus_milli=1500,
        memory_bytes=512 * MIB,
        shm_bytes=64 * MIB,
        scratch_bytes=100 * MIB,
        output_bytes=50 * MIB,
        pids_limit=512,
        devices=(),
        input_dir=Path("/inputs/x"),
        state_dir=Path("/state"),
        time_limit_us=1,
        grace_us=1,
        max_unreachable_us=None,
        unreachable_at_us=None,
        log_bytes_max=1,
        log_bytes_per_second=1,
    )
    return replace(order, **changes)


def a_body(order: LaunchOrder | None = None, **changes: Any) -> dict[str, Any]:
    given = {"image": IMAGE, "setting": SETTING, "bounds": BOUNDS} | changes
    return create_body(order or an_order(), given["image"], given["setting"], given["bounds"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Image", IMAGE.image_id),
        ("User", f"{UID}:{UID}"),
        ("WorkingDir", "/"),
        ("Entrypoint", ["/.corral/busybox", "sh"]),
        ("Cmd", []),
        ("Tty", False),
        ("OpenStdin", False),
        ("NetworkDisabled", True),
        ("StopSignal", "SIGTERM"),
        ("Healthcheck", {"Test": ["NONE"]}),
        ("Volumes", {}),
    ],
)
def test_each_setting_of_the_container(name: str, value: object) -> None:
    assert a_body()[name] == value


HOST_PART: dict[str, object] = {
    "Runtime": "runc",
    "Privileged": False,
    "CapAdd": [],
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges:true", 'seccomp={"defaultAction":"SCMP_ACT_ERRNO"}'],
    "ReadonlyRootfs": True,
    "NetworkMode": "none",
    "IpcMode": "private",
    "CgroupnsMode": "private",
    "PidMode": "",
    "UTSMode": "",
    "UsernsMode": "",
    "Init": True,
    "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    "AutoRemove": False,
    "Memory": 512 * MIB,
    "MemorySwap": 512 * MIB,
    "OomKillDisable": False,
    "OomScoreAdj": 500,
    "PidsLimit": 512,
    "NanoCpus": 1_500_000_000,
    "ShmSize": 64 * MIB,
    "Devices": [],
    "DeviceCgroupRules": [],
    "DeviceRequests": [],
    "Binds": [],
    "GroupAdd": [],
    "VolumesFrom": [],
    "LogConfig": {"Type": "none", "Config": {}},
}
"""Settings that are the same for each order, or the order's own number."""
COMPOSED = {"MaskedPaths", "ReadonlyPaths", "Ulimits", "Tmpfs", "Mounts"}
"""Settings that the tests below look into."""
EMPTY = {"PublishAllPorts", "MemorySwappiness", "Links", "ExtraHosts"}


@pytest.mark.parametrize("name", HOST_PART)
def test_each_setting_of_the_host_s_part(name: str) -> None:
    assert a_body()["HostConfig"][name] == HOST_PART[name]


def test_nothing_is_said_that_no_test_knows() -> None:
    assert set(a_body()["HostConfig"]) == set(HOST_PART) | COMPOSED | EMPTY
    assert not any(a_body()["HostConfig"][name] for name in EMPTY)


def test_places_of_the_host_are_masked_or_read_only() -> None:
    host = a_body()["HostConfig"]
    assert {"/proc/kcore", "/proc/keys", "/sys/firmware"} <= set(host["MaskedPaths"])
    assert {"/proc/sys", "/proc/sysrq-trigger"} <= set(host["ReadonlyPaths"])


def test_tmp_has_a_size_an_owner_and_no_devices() -> None:
    options = set(a_body()["HostConfig"]["Tmpfs"]["/tmp"].split(","))
    assert {"nosuid", "nodev", f"uid={UID}", f"gid={UID}", "nr_inodes=65536", f"size={256 * MIB}"} <= options


def test_shared_memory_has_an_end_of_files_too() -> None:
    options = set(a_body()["HostConfig"]["Tmpfs"]["/dev/shm"].split(","))
    assert {"noexec", "nosuid", "nodev", "nr_inodes=65536", f"size={64 * MIB}"} <= options


def test_a_large_job_s_tmp_is_capped() -> None:
    assert f"size={4 << 30}" in a_body(an_order(memory_bytes=1 << 40))["HostConfig"]["Tmpfs"]["/tmp"]


def test_shared_memory_of_zero_is_never_unlimited() -> None:
    assert a_body(an_order(shm_bytes=0))["HostConfig"]["ShmSize"] == 4096


def test_no_more_processors_than_the_host_has() -> None:
    assert a_body(an_order(cpus_milli=64_000))["HostConfig"]["NanoCpus"] == 8_000_000_000


@pytest.mark.parametrize(("daemon", "given"), [(1024, 1024), (1 << 20, 65536)])
def test_no_more_open_files_than_the_daemon_has(daemon: int, given: int) -> None:
    limits = a_body(bounds=replace(BOUNDS, nofile_max=daemon))["HostConfig"]["Ulimits"]
    assert {"Name": "nofile", "Soft": given, "Hard": given} in limits
    assert {"Name": "core", "Soft": 0, "Hard": 0} in limits
    assert "nproc" not in {limit["Name"] for limit in limits}


def mounts(order: LaunchOrder) -> dict[str, tuple[str, bool]]:
    found = a_body(order)["HostConfig"]["Mounts"]
    assert all(mount["Type"] == "bind" for mount in found)
    assert all(mount["BindOptions"] == {"Propagation": "rprivate", "NonRecursive": True} for mount in found)
    return {mount["Target"]: (mount["Source"], mount["ReadOnly"]) for mount in found}


def test_the_mounts_are_these_and_no_others() -> None:
    assert mounts(an_order()) == {
        "/.corral": ("/state/gate", True),
        "/out": (str(PLACES["out"]), False),
        "/scratch": (str(PLACES["scratch"]), False),
        "/in": ("/inputs/x", True),
    }


def test_what_was_not_asked_for_is_not_mounted() -> None:
    assert set(mounts(an_order(scratch_bytes=0, input_dir=None))) == {"/.corral", "/out"}


def test_programs_run_from_scratch_and_not_from_the_output() -> None:
    assert {volume.name: volume.may_execute for volume in volumes_of(an_order())} == {"out": False, "scratch": True}


def env(**changes: Any) -> list[str]:
    found: list[str] = a_body(**changes)["Env"]
    return found


def test_a_cpu_job_is_told_that_it_has_no_gpu() -> None:
    assert env() == ["HOME=/tmp", "EPOCHS=10", "NVIDIA_VISIBLE_DEVICES=void"]


def test_the_tenant_s_home_stands() -> None:
    assert "HOME=/out" in env(order=an_order(env={"HOME": "/out"}))


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_VISIBLE_DEVICES",
        "DOCKER_HOST",
    ],
)
def test_a_variable_that_steers_loaders_or_hooks_is_refused(name: str) -> None:
    with pytest.raises(SandboxFault, match=name):
        a_body(an_order(env={name: "x"}))


def test_the_image_s_steering_variables_are_taken_out() -> None:
    image = replace(IMAGE, dropped_env=("LD_LIBRARY_PATH", "NVIDIA_VISIBLE_DEVICES"))
    assert env(image=image)[0] == "LD_LIBRARY_PATH"  # a bare name: the engine removes it
    assert "NVIDIA_VISIBLE_DEVICES=void" in env(image=image)


def test_gpus_are_asked_for_by_uuid() -> None:
    body = a_body(an_order(devices=(GPU,)))
    (request,) = body["HostConfig"]["DeviceRequests"]
    assert (request["Driver"], request["DeviceIDs"], request["Count"]) == ("nvidia", ["GPU-1111"], 0)
    assert request["Capabilities"] == [["gpu"]]
    assert "NVIDIA_VISIBLE_DEVICES=GPU-1111" in body["Env"]


def test_gpus_are_asked_for_by_cdi_where_the_engine_has_it() -> None:
    body = a_body(an_order(devices=(GPU,)), bounds=replace(BOUNDS, has_cdi=True))
    assert body["HostConfig"]["DeviceRequests"] == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-1111"]}]
    assert "NVIDIA_VISIBLE_DEVICES=void" in body["Env"]


def test_a_simulated_gpu_asks_the_engine_for_nothing() -> None:
    body = a_body(an_order(devices=(SIMULATED,)))
    assert body["HostConfig"]["DeviceRequests"] == []
    assert "NVIDIA_VISIBLE_DEVICES=void" in body["Env"]


@pytest.mark.parametrize("runtime", ["", "io.containerd.runc.v2", "nvidia", "crun"])
def test_a_runtime_outside_the_list_is_refused(runtime: str) -> None:
    with pytest.raises(SandboxFault, match="runtime"):
        a_body(setting=replace(SETTING, runtime=runtime))


@pytest.mark.parametrize("name", ["pids_limit", "memory_bytes", "cpus_milli"])
@pytest.mark.parametrize("value", [0, -1])
def test_an_order_without_a_limit_is_refused(name: str, value: int) -> None:
    with pytest.raises(SandboxFault, match="without a limit"):
        a_body(an_order(**{name: value}))


def test_a_volume_that_is_missing_is_refused() -> None:
    with pytest.raises(SandboxFault, match="scratch"):
        a_body(setting=replace(SETTING, volumes={"out": PLACES["out"]}))


def test_labels_tell_whose_it_is() -> None:
    assert labels_of(an_order()) == {
        "corral.attempt": "att_1",
        "corral.fence": "7",
        "corral.job": "job_1",
        "corral.level": "container",
        "corral.node": "nod_1",
        "corral.state": "/state",
        "corral.tenant": "ten_1",
    }
    assert container_name(an_order()) == "corral-att_1"
