"""Bubblewrap: the conformance suite, and what is its own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import services

from domain.ids import AttemptId, Fence, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level
from sandbox import cgroup_groups
from sandbox.bubblewrap import BubblewrapSandbox
from sandbox.bubblewrap_verify import compare, environment_of
from sandbox.comparison import Comparison
from sandbox.contract import FactSource, ImageRefused, LaunchOrder, WeakerThanAsked
from sandbox.job_user import job_uid
from sandbox.observe import Observation, observe
from sandbox.runner_link import RunnerLink
from tests.integration.sandbox.conformance import SandboxConformance
from tests.integration.sandbox.lives import OrderMaker, made, ran, running

MIB = 1 << 20
NODE = NodeId(f"nod_test_{os.getpid()}")
ORDINARY_UID = 64099


def host_limits() -> set[str]:
    """The controllers of which this host gives us groups."""
    name = f"corral-test-{os.getpid()}"
    found = set(cgroup_groups.make(name, 64 * MIB, 64, 1000).folders)
    cgroup_groups.remove(name)
    return found


@cache
def what_is_missing() -> str:
    """Why bubblewrap does not work on this machine; empty if it does."""
    with tempfile.TemporaryDirectory() as root:
        probe = BubblewrapSandbox(Path(root), NODE).probe()
    return "" if probe.is_offered else probe.reasons[0]


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[BubblewrapSandbox]:
    """A backend that must leave nothing behind."""
    if reason := what_is_missing():
        services.missing(f"bubblewrap does not work here: {reason}")
    backend = BubblewrapSandbox(tmp_path / "root", NODE)
    yield backend
    assert backend.list() == ()


@pytest.fixture
def order(tmp_path: Path) -> OrderMaker:
    """Orders for the process level, each with a state folder of its own."""

    def make(*command: str, **changes: Any) -> LaunchOrder:
        name = f"att_{os.urandom(8).hex()}"
        state_dir = tmp_path / name
        state_dir.mkdir(mode=0o700)
        fields: dict[str, Any] = {
            "attempt_id": AttemptId(name),
            "fence": Fence(1),
            "job_id": JobId("job_test"),
            "tenant_id": TenantId("ten_test"),
            "node_id": NODE,
            "level": Level.PROCESS,
            "image_kind": ImageKind.HOST,
            "image_reference": "host",
            "command": command,
            "env": {},
            "cpus_milli": 1000,
            "memory_bytes": 256 * MIB,
            "shm_bytes": 16 * MIB,
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

    return make


def without(seen: Observation, path: str) -> Observation:
    """As if nothing were mounted there."""
    return replace(seen, mounts=tuple(mount for mount in seen.mounts if mount.mount_point != path))


def remounted(seen: Observation, path: str, **changes: Any) -> Observation:
    """As if the mount there were another."""
    mounts = [replace(mount, **changes) if mount.mount_point == path else mount for mount in seen.mounts]
    return replace(seen, mounts=tuple(mounts))


def with_status(seen: Observation, **changes: Any) -> Observation:
    """As if the gate had other rights."""
    return replace(seen, status=replace(seen.status, **changes))


WRITABLE = frozenset({"rw", "nosuid", "nodev"})
WEAKENINGS: dict[str, Callable[[Observation], Observation]] = {
    "root of the host": lambda seen: with_status(seen, uids=(0, 0, 0, 0)),
    "saved uid": lambda seen: with_status(seen, uids=(*seen.status.uids[:2], 0, seen.status.uids[3])),
    "group": lambda seen: with_status(seen, gids=(0, 0, 0, 0)),
    "groups": lambda seen: with_status(seen, groups=(0,)),
    "a capability": lambda seen: with_status(seen, cap_bounding=1 << 21),
    "an ambient capability": lambda seen: with_status(seen, cap_ambient=1),
    "new privileges": lambda seen: with_status(seen, no_new_privs=False),
    "no filter": lambda seen: with_status(seen, seccomp_mode=0),
    **{
        f"the host's {name}": lambda seen, name=name: replace(
            seen, namespaces={**seen.namespaces, name: seen.host_namespaces[name]}
        )
        for name in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
    },
    "a network": lambda seen: replace(seen, net_devices=("lo", "eth0")),
    "a writable root": lambda seen: remounted(seen, "/", options=WRITABLE),
    "a writable /usr": lambda seen: remounted(seen, "/usr", options=WRITABLE),
    "a writable /dev": lambda seen: remounted(seen, "/dev", options=WRITABLE),
    "a writable gate": lambda seen: remounted(seen, "/.corral", options=WRITABLE),
    "the first process in sight": lambda seen: without(seen, "/proc/1"),
    "one more place to write": lambda seen: replace(
        seen, mounts=(*seen.mounts, replace(seen.mounts[0], mount_point="/home", options=WRITABLE))
    ),
    "no tmpfs at /tmp": lambda seen: without(seen, "/tmp"),
    "an endless /tmp": lambda seen: remounted(seen, "/tmp", super_options={}),
    "a larger /out": lambda seen: remounted(seen, "/out", super_options={"size": "1g", "nr_inodes": "65536"}),
    "endless files in /out": lambda seen: remounted(seen, "/out", super_options={"size": "16k"}),
    "programs from /out": lambda seen: remounted(seen, "/out", options=WRITABLE),
    "set-uid in /scratch": lambda seen: remounted(seen, "/scratch", options=frozenset({"rw", "nodev"})),
    "another file system at /scratch": lambda seen: remounted(seen, "/scratch", fs_type="ext4"),
    "a device": lambda seen: replace(seen, devices=(*seen.devices, "nvidia0")),
    "core files": lambda seen: replace(seen, rlimits={**seen.rlimits, "Max core file size": (0, None)}),
    "killed last": lambda seen: replace(seen, oom_score_adj=-1000),
}


class TestBubblewrap(SandboxConformance):
    dies_with_runner = True
    limits_memory = host_limits() >= {"memory", "cpu"}
    python = ("python3",)

    # -- the wall, piece by piece

    @pytest.mark.parametrize("piece", sorted(WEAKENINGS))
    def test_every_weakening_is_seen(self, sandbox: BubblewrapSandbox, order: OrderMaker, piece: str) -> None:
        asked = order("true")
        with made(sandbox, asked):
            pid = RunnerLink(asked.state_dir).state().gate_pid
            assert pid is not None
            wanted = sandbox.asked(asked)
            compare(sound := Comparison(), wanted, observe(pid), environment_of(pid))
            assert sound.facts()
            compare(weak := Comparison(), wanted, WEAKENINGS[piece](observe(pid)), environment_of(pid))
            with pytest.raises(WeakerThanAsked):
                weak.facts()

    def test_a_variable_of_the_agents_is_seen(self, sandbox: BubblewrapSandbox, order: OrderMaker) -> None:
        asked = order("true")
        with made(sandbox, asked):
            pid = RunnerLink(asked.state_dir).state().gate_pid
            assert pid is not None
            compare(
                comparison := Comparison(),
                sandbox.asked(asked),
                observe(pid),
                environment_of(pid) | {"CORRAL_KEY": "s3cret"},
            )
            with pytest.raises(WeakerThanAsked, match="CORRAL_KEY") as refusal:
                comparison.facts()
            assert "s3cret" not in str(refusal.value)

    def test_a_job_of_root_is_no_root(self, sandbox: BubblewrapSandbox, order: OrderMaker) -> None:
        if os.geteuid() != 0:
            pytest.skip("the agent is no root here")
        asked = order("sleep", "60")
        with running(sandbox, asked) as name:
            owners = {Path(f"/proc/{pid}").stat().st_uid for pid in sandbox.pids(name)}
        assert owners == {job_uid(asked.tenant_id)}

    def test_the_first_process_cannot_be_touched(self, sandbox: BubblewrapSandbox, order: OrderMaker) -> None:
        """Bubblewrap's own process has no filter: who writes its memory has none either."""
        script = "ls -A /proc/1; cat /proc/1/cmdline; exec 3<>/proc/1/mem"
        end = ran(sandbox, order("sh", "-c", f"{{ {script}; }} 2>/dev/null || true"))
        assert end.log == b""

    def test_memory_in_files_counts(self, sandbox: BubblewrapSandbox, order: OrderMaker) -> None:
        if not self.limits_memory:
            pytest.skip("this host lets us limit no memory")
        script = "(dd if=/dev/zero of=/dev/shm/x bs=1M count=200 2>/dev/null); exit $?"
        end = ran(sandbox, order("sh", "-c", script, memory_bytes=64 * MIB, shm_bytes=512 * MIB))
        assert end.exit.is_oom_killed

    def test_an_image_is_not_its_business(self, sandbox: BubblewrapSandbox, order: OrderMaker) -> None:
        with pytest.raises(ImageRefused):
            sandbox.create(order("true", image_kind=ImageKind.ENGINE, image_reference="sha256:" + "0" * 64))

    def test_limits_that_the_host_does_not_give_are_said_to_be_missing(
        self, sandbox: BubblewrapSandbox, order: OrderMaker
    ) -> None:
        facts = {fact.name: fact for fact in ran(sandbox, order("true")).record.facts}
        expected = FactSource.OBSERVED if self.limits_memory else FactSource.NOT_IN_FORCE
        assert facts["memory_bytes"].source is expected

    def test_its_control_groups_are_gone_with_it(self, sandbox: BubblewrapSandbox, order: OrderMaker) -> None:
        asked = order("sleep", "60")
        with running(sandbox, asked) as name:
            if self.limits_memory:
                assert cgroup_groups.pids_in(name) >= sandbox.pids(name)
        assert cgroup_groups.pids_in(name) == frozenset()
        assert not list(Path("/sys/fs/cgroup").glob(f"*/corral/{name}"))

    def test_a_long_path_is_no_obstacle(self, sandbox: BubblewrapSandbox, order: OrderMaker, tmp_path: Path) -> None:
        """A socket's address holds 107 bytes."""
        deep = tmp_path / ("d" * 100) / ("e" * 100)
        deep.mkdir(parents=True)
        assert ran(sandbox, order("sh", "-c", "exit 9", state_dir=deep)).exit.exit_code == 9

    def test_an_ordinary_user_can_do_it_too(self, tmp_path: Path, sandbox: BubblewrapSandbox) -> None:
        """The embedded start has no root; here the whole backend runs as someone else."""
        if os.geteuid() != 0:
            pytest.skip("the other tests are run by an ordinary user already")
        python = "/usr/bin/python3"
        if not Path(python).exists() or subprocess.run([python, "-c", "import tomllib"], check=False).returncode:
            pytest.skip("no Python that an ordinary user could run")
        with tempfile.TemporaryDirectory(dir="/tmp") as name:
            root = Path(name)
            os.chown(root, ORDINARY_UID, ORDINARY_UID)
            paths = [path for path in sys.path if path]
            done = subprocess.run(
                [python, "-c", AS_ORDINARY_USER, name],
                env={"PYTHONPATH": ":".join(path for path in paths if not path.startswith(sys.base_prefix))},
                user=ORDINARY_UID,
                group=ORDINARY_UID,
                extra_groups=[],
                cwd="/",
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        assert done.stderr == ""
        assert done.stdout.splitlines() == ["True", "True", "b'[redacted:TOKEN]' True"]

    def test_where_user_namespaces_are_forbidden_it_is_not_offered(self, tmp_path: Path) -> None:
        """Their number is set in a user namespace of the test's own, so that the machine is left as it is."""
        unshare = services.need_program("unshare")
        script = f'echo 0 >/proc/sys/user/max_user_namespaces; exec {sys.executable} -c "$0" {tmp_path}'
        done = subprocess.run(
            [unshare, "--user", "--map-root-user", "sh", "-c", script, NOT_OFFERED],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.splitlines()[:1] == ["False"], done.stderr
        assert "sysctl -w user.max_user_namespaces=" in done.stdout


NOT_OFFERED = """
import sys
from pathlib import Path
from sandbox.bubblewrap import BubblewrapSandbox
probe = BubblewrapSandbox(Path(sys.argv[1]) / "root", "nod_test").probe()
print(probe.is_offered, *probe.reasons, sep="\\n")
"""

AS_ORDINARY_USER = """
import sys
from pathlib import Path
from sandbox.bubblewrap import BubblewrapSandbox
probe = BubblewrapSandbox(Path(sys.argv[1]) / "root", "nod_test").probe()
print(probe.is_offered)
print(any(reason.startswith("memory_bytes: ") for reason in probe.reasons) or probe.reasons)

from dataclasses import replace
from domain.levels import ImageKind, Level
from sandbox.engine_probe import probe_folder, probe_order
backend, values = BubblewrapSandbox(Path(sys.argv[1]) / "root", "nod_test"), {"TOKEN": b"correct horse"}
with probe_folder(Path(sys.argv[1])) as folder:
    order = probe_order(folder, "nod_test", Level.PROCESS, "host")
    order = replace(order, image_kind=ImageKind.HOST, command=("cat", "/run/secrets/TOKEN"), secrets=("TOKEN",))
    name = backend.create(order, values)
    backend.verify(name, order)
    backend.start(name, order)
    backend.wait(name, order, 30)
    print((folder / "log").read_bytes(), backend.secrets(name, order) == values)
    backend.remove(name, order)
"""
