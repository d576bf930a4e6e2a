"""A container engine for the tests: whether there is one, images made on the spot, and what a test may have left."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import services
from docker.errors import DockerException, ImageNotFound

from domain.ids import AttemptId, Fence, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from sandbox.contract import LaunchOrder, SandboxFault
from sandbox.engine_facts import static_busybox
from sandbox.local_image import busybox_layer

SOCKET = "/var/run/docker.sock"
MIB = 1 << 20
RUN = os.urandom(8).hex()
"""In every image of this run, so that another run beside it on the same engine does not forget ours."""


def need_engine() -> str:
    """The socket of a container engine that answers, on a machine where its sandboxes can be made."""
    if os.geteuid() != 0:
        services.missing("sandboxes with Docker need root")
    try:
        with closing(docker.APIClient(base_url=f"unix://{SOCKET}")) as api:
            api.ping()
        static_busybox()
    except DockerException:
        services.missing(f"no Docker engine answers on {SOCKET}")
    except SandboxFault as error:
        services.missing(str(error))
    return SOCKET


def an_image(config: Mapping[str, Any], architecture: str | None = None, layer: bytes | None = None) -> str:
    """Load an image of one busybox, or of that layer, with any configuration a Dockerfile could write; its id."""
    layer = layer or busybox_layer(static_busybox())
    with closing(docker.APIClient(base_url=f"unix://{SOCKET}")) as api:
        machine = architecture or str(api.version()["Arch"])
        described = {
            "architecture": machine,
            "os": "linux",
            "config": {"Labels": {"corral.test": RUN}} | dict(config),
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        }
        text = json.dumps(described).encode()
        tag = f"corral-test/{hashlib.sha256(text).hexdigest()[:12]}:1"
        manifest = json.dumps([{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode()
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, content in (("config.json", text), ("layer.tar", layer), ("manifest.json", manifest)):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        for _ in api.load_image(archive.getvalue()):
            pass
        return str(api.inspect_image(tag)["Id"])


def python_layer() -> bytes:
    """A tar of a busybox and of the Python that runs the tests, with its library and what the loader asks for."""
    prefix, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    program = Path(sys.executable).resolve()
    library = Path(os.__file__).parent
    loaded = {program, *(library / "lib-dynload").glob("*.so")}
    needed = subprocess.run(["ldd", *map(str, loaded)], capture_output=True, text=True, check=True).stdout
    paths = {Path(path) for path in re.findall(r"(/\S+) \(0x", needed)}
    archive = io.BytesIO(busybox_layer(static_busybox()))
    with tarfile.open(fileobj=archive, mode="a") as tar:
        tar.add(program, f"{prefix}/bin/python3".lstrip("/"))
        tar.add(library, f"{prefix}/lib/{version}".lstrip("/"), filter=_without_extras)
        for path in sorted(paths):
            tar.add(path.resolve(), str(path).lstrip("/"))
    return archive.getvalue()


def _without_extras(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = set(Path(entry.name).parts)
    return None if parts & {"test", "site-packages", "dist-packages", "__pycache__", "idlelib", "ensurepip"} else entry


def forget_image(image_id: str) -> None:
    """Remove a test's image, if it is there."""
    with closing(docker.APIClient(base_url=f"unix://{SOCKET}")) as api:
        try:
            api.remove_image(image_id, force=True)
        except ImageNotFound:
            return


def an_order(folder: Path, image: str, *command: str, **changes: Any) -> LaunchOrder:
    """A small order for a container, its state folder below `folder`; each field can be changed by name."""
    name = f"att_{os.urandom(8).hex()}"
    state_dir = folder / name
    state_dir.mkdir(mode=0o700, parents=True)
    fields: dict[str, Any] = {
        "attempt_id": AttemptId(name),
        "fence": Fence(1),
        "job_id": JobId("job_test"),
        "tenant_id": TenantId("ten_test"),
        "node_id": NodeId("nod_test"),
        "level": Level.CONTAINER,
        "image_kind": ImageKind.ENGINE,
        "image_reference": image,
        "command": command,
        "env": {},
        "cpus_milli": 1000,
        "memory_bytes": 128 * MIB,
        "shm_bytes": 8 * MIB,
        "scratch_bytes": 16 * MIB,
        "output_bytes": 16 * MIB,
        "pids_limit": 64,
        "devices": (),
        "input_dir": None,
        "state_dir": state_dir,
        "time_limit_us": 60_000_000,
        "grace_us": 1_000_000,
        "max_unreachable_us": None,
        "unreachable_at_us": None,
        "log_bytes_max": 4 * MIB,
        "log_bytes_per_second": 64 * MIB,
    }
    return LaunchOrder(**(fields | changes))


@dataclass(frozen=True)
class Leftovers:
    """What stands on the machine for one node's sandboxes below one folder."""

    containers: tuple[str, ...]
    mounts: tuple[str, ...]
    loop_devices: tuple[str, ...]
    control_groups: tuple[str, ...]
    files: tuple[str, ...]


NOTHING = Leftovers((), (), (), (), ())


def leftovers(root: Path, node_id: str, known_ids: frozenset[str]) -> Leftovers:
    """What is left of the containers in `known_ids` and of everything below `root`; spare images do not count."""
    with closing(docker.APIClient(base_url=f"unix://{SOCKET}")) as api:
        rows = api.containers(all=True, filters={"label": f"corral.node={node_id}"})
    groups = {name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names} & known_ids  # a walk minds no race
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return Leftovers(
        containers=tuple(row["Names"][0] for row in rows),
        mounts=tuple(line for line in lines if str(root) in line),
        loop_devices=tuple(str(f) for f in Path("/sys/block").glob("loop*/loop/backing_file") if _is_below(f, root)),
        control_groups=tuple(sorted(groups)),
        files=tuple(str(f) for name in ("mounts", "held", "probes") for f in (root / name).glob("*")),
    )


def runners(folder: Path) -> tuple[str, ...]:
    """State folders below `folder` in which a runner still runs."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"sandbox.runner" in (process / "cmdline").read_bytes():
                found.append(str((process / "cwd").readlink()))
        except OSError:
            continue  # it ended meanwhile
    return tuple(place for place in found if place.startswith(str(folder)))


def until_no_runner(folder: Path, within_s: float = 20.0) -> None:
    """Every runner below `folder` must end, one that was coming up while its sandbox went away included."""
    deadline, pause = time.monotonic() + within_s, threading.Event()
    while left := runners(folder):
        assert time.monotonic() < deadline, f"runners are left in {left}"
        pause.wait(0.02)


def container_ids(node_id: str) -> frozenset[str]:
    """The ids of this node's containers."""
    with closing(docker.APIClient(base_url=f"unix://{SOCKET}")) as api:
        return frozenset(row["Id"] for row in api.containers(all=True, filters={"label": f"corral.node={node_id}"}))


def _is_below(file: Path, root: Path) -> bool:
    try:
        return str(root) in file.read_text()
    except OSError:
        return False  # it was let go of meanwhile
