"""Sandboxes as containers of the Docker engine.

Create, verify and start ask the engine as little as they can: each call is some milliseconds of a job's start.
"""

import contextlib
import logging
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from domain.ids import NodeId
from domain.levels import ImageKind, Level
from sandbox import gate
from sandbox.comparison import Comparison
from sandbox.contract import (
    NO_SECRETS,
    EngineAway,
    Exit,
    Held,
    ImageMissing,
    ImageRefused,
    IsolationRecord,
    LaunchOrder,
    Probe,
    SandboxFault,
    SandboxId,
    StopReason,
)
from sandbox.engine_client import DEFAULT_SOCKET, EngineClient, NameTaken, NoSuchContainer
from sandbox.engine_facts import EngineFacts, read_facts, static_busybox, warnings
from sandbox.engine_held import HeldNotes, held_by_labels
from sandbox.engine_probe import PROBE_TENANT, forget_folder, probe_folder, probe_order, try_out
from sandbox.engine_verify import compare_configured, compare_observed, container_pids, gate_pid, record_image
from sandbox.hardening import (
    GATE_PLACE,
    LABEL_FENCE,
    LABEL_LEVEL,
    LABEL_NODE,
    LABEL_STATE,
    Setting,
    container_name,
    create_body,
    labels_of,
    volumes_of,
)
from sandbox.image_gate import AdmittedImage, admit, check_reference
from sandbox.image_store import ImageStore
from sandbox.job_user import job_uid
from sandbox.local_image import ensure_busybox_image
from sandbox.runner_link import PLAN, RunnerAway, RunnerLink, engine_plan, write_plan
from sandbox.runner_spare import SpareRunners
from sandbox.scratch import SECRETS, ScratchPool
from sandbox.seccomp import engine_profile
from sandbox.secret_files import check_given, secrets_in

REFILL_AFTER_S: Final = 0.2
"""Formatting volumes and starting interpreters would take the CPU from the job's first instructions."""
GATE_FOLDER: Final = "gate"
BUSYBOX: Final = "busybox"
SCRIPT: Final = "gate.sh"
GATE_COMMAND: Final = (f"{GATE_PLACE}/{BUSYBOX}", "sh", f"{GATE_PLACE}/{SCRIPT}", "0")
"""The script as a file, for the first process's command line shows inside; the number of processes is the engine's."""
OTHER_FENCE: Final = "the attempt has a sandbox under another fence"
ALIVE: Final = frozenset({"running", "paused", "restarting"})

log = logging.getLogger(__name__)


class DockerSandbox:
    """Containers of one node on one engine, with one runtime. Needs root, for volumes of a fixed size."""

    def __init__(
        self,
        root: Path,
        node_id: NodeId,
        socket_path: str = DEFAULT_SOCKET,
        level: Level = Level.CONTAINER,
        runtime: str = "runc",
    ) -> None:
        """`root` holds volumes and notes of what exists, the same after a restart. Asks the engine nothing.

        Raises:
            OSError: `root` cannot be made.
        """
        self.level = level
        self.engine = EngineClient(socket_path)
        self._root = root
        self._node_id = node_id
        self._runtime = runtime
        self._volumes = ScratchPool(root)
        self._held = HeldNotes(root / "held")
        self._runners = SpareRunners()
        self._helpers = ThreadPoolExecutor(4, thread_name_prefix="sandbox")
        self.images = ImageStore(self.engine, root / "images.json")
        self._images: dict[str, AdmittedImage] = {}
        self._facts: EngineFacts | None = None
        self._seccomp = engine_profile()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of connections and threads. Sandboxes, their runners and mounts stay."""
        self._volumes.close()
        self._helpers.shutdown(wait=True)
        self._runners.close()
        self.engine.close()

    def probe(self) -> Probe:
        """Start a container, look at it from outside, remove it; say whether this level may be offered."""
        version = ""
        try:
            facts = self._facts = read_facts(self.engine)
            version = facts.runc_version if self._runtime == "runc" else ""
            self._check_node(facts)
            for left in self._everything():
                if left.tenant_id == PROBE_TENANT:  # of a probe that died
                    self.remove(left.sandbox_id, None)
                    forget_folder(self._root, left.state_dir)
            with probe_folder(self._root) as folder:
                image_id = ensure_busybox_image(self.engine, static_busybox())
                try_out(self, probe_order(folder, self._node_id, self.level, image_id))
        except (SandboxFault, OSError) as error:
            return Probe(self.level, False, self._runtime, version, (str(error),))
        return Probe(self.level, True, self._runtime, version, warnings(facts))

    def create(self, order: LaunchOrder, secrets: Mapping[str, bytes] = NO_SECRETS) -> SandboxId:
        """Make the container and start its gate, or find the one already made under this attempt and fence."""
        image = self._admitted(order)
        name = container_name(order)
        is_first = self._take_name(order, name)
        try:
            body = self._body(order, image, self._prepare(order, name, secrets))
            runner = self._helpers.submit(self._start_runner, order, name)  # beside the engine's own work
            try:
                self._make(name, body, order.image_reference)
            finally:
                runner.result()
        except EngineAway:
            raise
        except (SandboxFault, OSError) as error:
            if is_first:  # else it may be running, and this call is only the agent's question after a restart
                self.remove(SandboxId(name), order)
            raise error if isinstance(error, SandboxFault) else SandboxFault(f"it cannot be made: {error}") from error
        return SandboxId(name)

    def verify(self, sandbox: SandboxId, order: LaunchOrder) -> IsolationRecord:
        """Observe the waiting gate from the host, ask the engine for the rest, compare all of it with the order."""
        asked = self._helpers.submit(self._inspect, sandbox)  # the engine thinks while the gate comes up
        if error := RunnerLink(order.state_dir).wait_gate().error:
            raise SandboxFault(error)
        image, facts = self._admitted(order), self._known_facts()
        inspect = asked.result()
        places = self._volumes.places(sandbox)
        comparison = Comparison()
        pid = int(inspect["State"]["Pid"])
        if not pid:
            raise SandboxFault(f"the gate has ended: {inspect['State'].get('Error') or 'no reason is known'}")
        compare_observed(comparison, order, gate_pid(pid, inspect["Id"]), facts, places, image.dropped_env)
        compare_configured(comparison, self._body(order, image, places), image, inspect)
        record_image(comparison, image)
        return IsolationRecord(
            level=self.level,
            runtime=self._runtime,
            runtime_version=facts.runc_version if self._runtime == "runc" else "",
            kernel=os.uname().release,
            image=order.image_reference,
            devices=tuple(device.uuid for device in order.devices),
            facts=comparison.facts(),
        )

    def start(self, sandbox: SandboxId, order: LaunchOrder) -> None:
        """Open the gate; a runner that finds a deadline past refuses, and `wait` tells how it ended."""
        RunnerLink(order.state_dir).open()
        later = threading.Timer(REFILL_AFTER_S, self._refill)
        later.daemon = True
        later.start()

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
        """A descriptor of the volume that was /out.

        Raises:
            SandboxFault: it is not mounted: removed, or the node has restarted.
        """
        place = self._volumes.places(sandbox).get("out")
        if place is None:
            raise SandboxFault("the output is gone with its volume")
        return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def secrets(self, sandbox: SandboxId, order: LaunchOrder) -> Mapping[str, bytes]:
        """The values on its tmpfs, read from the host's side."""
        return secrets_in(self._volumes.place_of_secrets(sandbox), order.secrets)

    def remove(self, sandbox: SandboxId, order: LaunchOrder | None) -> None:
        """Kill what is left, unmount, forget; in this order, so that a crash leaves a note of what remains."""
        state_dir = order.state_dir if order is not None else self._state_dir(sandbox)
        if state_dir is not None and state_dir.is_dir():
            try:
                RunnerLink(state_dir).finish()
            except RunnerAway as error:
                log.warning("%s: %s", sandbox, error)  # it ends by itself when its container is gone
        self.engine.remove(sandbox)
        self._volumes.release(sandbox)
        self._held.forget(sandbox)

    def list(self) -> tuple[Held, ...]:
        """Every container of this node and level, and every note without one; not a probe's, which the next removes."""
        return tuple(held for held in self._everything() if held.tenant_id != PROBE_TENANT)

    def pids(self, sandbox: SandboxId) -> frozenset[int]:
        """The host's process ids in the container's control group; empty when it does not run."""
        try:
            found = self.engine.inspect(sandbox)
        except NoSuchContainer:
            return frozenset()
        pid = int(found["State"]["Pid"])
        return container_pids(pid, found["Id"]) if pid else frozenset()

    def _everything(self) -> Sequence[Held]:
        found = {}
        for row in self.engine.containers({LABEL_NODE: self._node_id, LABEL_LEVEL: self.level.value}):
            name = str(row["Names"][0]).lstrip("/")
            found[name] = held_by_labels(name, row["Labels"], row["State"] in ALIVE)
        for name in self._held.names():
            if name not in found and (labels := self._held.labels(name)) is not None:
                found[name] = held_by_labels(name, labels, is_alive=False)
        return [found[name] for name in sorted(found)]

    def _check_node(self, facts: EngineFacts) -> None:
        if os.geteuid() != 0:
            raise SandboxFault("volumes of a fixed size need root: run the worker of a Docker node as root")
        if self._runtime not in facts.runtimes:
            raise SandboxFault(f"the engine has no runtime {self._runtime}: it has {', '.join(sorted(facts.runtimes))}")

    def _known_facts(self) -> EngineFacts:
        if self._facts is None:
            self._facts = read_facts(self.engine)
        return self._facts

    def _admitted(self, order: LaunchOrder) -> AdmittedImage:
        """The image gate's word, kept: what a digest or an id names does not change."""
        if order.image_kind is not ImageKind.ENGINE:
            raise ImageRefused("the node's own files are no image for a container")
        image = self._images.get(order.image_reference)
        if image is None:
            check_reference(order.image_reference)
            image = admit(order.image_reference, self.images.present(order.image_reference), os.uname().machine)
            self._images[order.image_reference] = image
        return image

    def _refill(self) -> None:
        """Get ready for the next start, once this one needs the machine no more."""
        self._volumes.refill_soon()
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            self._helpers.submit(self._runners.refill)

    def _take_name(self, order: LaunchOrder, name: str) -> bool:
        """Note that the sandbox exists from now on; whether nothing was noted of it before.

        Raises:
            SandboxFault: the attempt has one under another fence.
        """
        noted = self._held.labels(name)
        if noted is not None and noted.get(LABEL_FENCE) != str(order.fence):
            raise SandboxFault(OTHER_FENCE)
        if noted is None:
            self._held.note(name, labels_of(order))
        return noted is None

    def _prepare(self, order: LaunchOrder, name: str, secrets: Mapping[str, bytes]) -> Mapping[str, Path]:
        """The gate's folder, the volumes and the secrets."""
        folder = order.state_dir / GATE_FOLDER
        facts = self._known_facts()
        uid = job_uid(order.tenant_id, facts.bounds.uids) + facts.user_offset
        gate.make_folder(folder, uid)
        _write_once(folder / SCRIPT, gate.SCRIPT)
        self._place_busybox(folder / BUSYBOX)
        check_given(order, secrets)
        places = self._volumes.provide(name, volumes_of(order), uid)
        return {**places, SECRETS: self._volumes.provide_secrets(name, secrets, uid)} if order.secrets else places

    def _place_busybox(self, target: Path) -> None:
        """The gate's program: one file shared by all gates where a hard link can be made, else a copy."""
        if target.exists():
            return
        kept = self._root / BUSYBOX
        with self._lock:
            if not kept.exists():
                draft = self._root / f"{BUSYBOX}.new"
                shutil.copyfile(static_busybox(), draft)
                draft.chmod(0o755)
                draft.replace(kept)
        try:
            target.hardlink_to(kept)
        except OSError:  # the state folder is on another file system
            shutil.copyfile(kept, target)
            target.chmod(0o755)

    def _body(self, order: LaunchOrder, image: AdmittedImage, volumes: Mapping[str, Path]) -> dict[str, Any]:
        setting = Setting(
            runtime=self._runtime,
            seccomp_json=self._seccomp,
            gate_dir=order.state_dir / GATE_FOLDER,
            gate_command=(*GATE_COMMAND, *order.command),
            volumes=volumes,
        )
        return create_body(order, image, setting, self._known_facts().bounds)

    def _start_runner(self, order: LaunchOrder, name: str) -> None:
        if not (order.state_dir / PLAN).exists():
            secrets_dir = self._volumes.place_of_secrets(name)
            write_plan(order.state_dir, engine_plan(order, self.engine.socket_path, name, secrets_dir))
        elif RunnerLink(order.state_dir).is_running():
            return
        self._runners.start(order.state_dir)

    def _make(self, name: str, body: Mapping[str, Any], reference: str) -> None:
        try:
            self.engine.create(body, name)
        except ImageMissing:
            self.images.missed(reference)
            raise
        except NameTaken:
            found = self._inspect(SandboxId(name))
            labels = found["Config"]["Labels"]
            if labels.get(LABEL_FENCE) != body["Labels"][LABEL_FENCE]:
                raise SandboxFault(OTHER_FENCE) from None
            if found["State"]["Status"] != "created":
                return  # it waits at the gate, or runs, or has ended: never start it a second time
        self.engine.start(name)

    def _inspect(self, sandbox: SandboxId) -> dict[str, Any]:
        try:
            return self.engine.inspect(sandbox)
        except NoSuchContainer:
            raise SandboxFault("the container is gone") from None

    def _state_dir(self, sandbox: SandboxId) -> Path | None:
        labels = self._held.labels(sandbox)
        if labels is None:
            try:
                labels = self.engine.inspect(sandbox)["Config"]["Labels"]
            except NoSuchContainer:
                return None
        return Path(labels[LABEL_STATE]) if LABEL_STATE in labels else None


def _write_once(file: Path, text: str) -> None:
    """Write a file that anyone may read, whole or not at all; one that is there may be being read, and stays."""
    if not file.exists():
        draft = file.with_name(f"{file.name}.new")
        draft.write_text(text)
        draft.chmod(0o644)
        draft.replace(file)
