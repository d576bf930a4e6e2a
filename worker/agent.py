"""The node's agent: it hears hints and verdicts, and keeps one thread for each attempt that it holds.

Its sandboxes do not need it: each has a runner of its own. So it may be ended at any moment, in any way.
"""

import logging
import threading
from collections.abc import Mapping

from corral.node import HeartbeatAnswer, HeldSandbox, NodeFacts

from domain.ids import AttemptId, Fence
from domain.levels import Level
from sandbox import boot_clock
from sandbox.contract import Sandbox, SandboxFault
from worker import endings, state_folder
from worker.adopt import Orphans
from worker.api_link import ApiLink
from worker.attempt import Attempt
from worker.contact import Contact
from worker.course import Tools
from worker.credential import Credential
from worker.device_watch import DeviceWatch
from worker.facts import node_facts
from worker.heartbeat import Heart, Pulse
from worker.image_keeper import ImageKeeper, Keeping
from worker.levels import Levels
from worker.poke import Poke, PokeListener
from worker.renewal import Renewal
from worker.settings import WorkerSettings

log = logging.getLogger(__name__)

SWEEP_S = 30.0
LEAVE_WITHIN_S = 10.0


class Agent:
    """Everything of the worker but its Celery process."""

    def __init__(
        self,
        settings: WorkerSettings,
        credential: Credential,
        api: ApiLink,
        boxes: Mapping[Level, Sandbox],
        devices: DeviceWatch,
        hints_password_sha256: str | None = None,
        keeping: Keeping | None = None,
    ) -> None:
        """`keeping` None: no level runs images."""
        self._settings = settings
        self._boxes = boxes
        self._devices = devices
        self._hints_password_sha256 = hints_password_sha256
        self._leaving = threading.Event()
        self._lock = threading.Lock()
        self._attempts: dict[AttemptId, Attempt] = {}
        self._levels = Levels(boxes)
        self._orphans = Orphans(boxes, settings.attempts_dir, self._is_ours)
        self._contact = Contact(int(settings.silence_seconds * 1_000_000))
        self._tools = Tools(
            settings=settings,
            api=api,
            boxes=boxes,
            devices=devices,
            contact=self._contact,
            leaving=self._leaving,
            node_id=credential.node_id,
            held_devices=self._held_devices,
            pids_of_ours=self._pids_of_ours,
            keeping=keeping,
        )
        self._images = None if keeping is None else ImageKeeper(keeping, api, self._leaving, self._used_images)
        pulse = Pulse(
            facts=self._facts,
            held=self._held,
            held_devices=self._held_devices,
            pids_of_ours=self._pids_of_ours,
            problems=self._problems,
            images=lambda: [] if self._images is None else self._images.reports(),
            on_answer=self._obey,
        )
        self._heart = Heart(pulse, api, self._contact, devices, self._leaving, settings.heartbeat_seconds)
        self._pokes = PokeListener(settings.poke_socket, self._heed)
        self._renewal = Renewal(settings.data_dir, credential, api, settings.token_seconds)
        self._sweep_now = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="sweeper", daemon=True)

    def start(self) -> None:
        """Take up what an earlier agent left, then begin to hear and to beat."""
        self._settings.attempts_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._adopt()
        self._orphans.sweep_probes()
        self._levels.probe_missing()
        self._orphans.sweep()
        self._pokes.start()
        self._heart.start()
        self._sweeper.start()
        if self._images is not None:
            self._images.start()

    def close(self) -> None:
        """Stop hearing and beating. Sandboxes run on; the next agent finds them, and the folders."""
        self._leaving.set()
        self._sweep_now.set()
        self._pokes.close()
        self._heart.close()
        self._sweeper.join(timeout=LEAVE_WITHIN_S)
        with self._lock:
            attempts = list(self._attempts.values())
        deadline_us = boot_clock.now_us() + int(LEAVE_WITHIN_S * 1_000_000)
        for attempt in attempts:
            attempt.join(max(0.0, (deadline_us - boot_clock.now_us()) / 1_000_000))

    def launch(self, attempt_id: AttemptId, fence: Fence) -> None:
        """Take an attempt that was said to be assigned here; the API tells whether that is true."""
        with self._lock:
            if self._leaving.is_set() or attempt_id in self._attempts:
                return
            if len(self._attempts) >= self._settings.attempts_max:
                log.warning("%s has to wait: %d attempts are held", attempt_id, len(self._attempts))
                return
            if self._contact.is_silent(boot_clock.now_us()):
                log.warning("%s is not started: the API has not been heard of lately", attempt_id)
                return
            try:
                folder = state_folder.create(self._settings.attempts_dir, attempt_id, fence)
            except OSError as error:
                log.error("%s is not started: its folder cannot be made: %s", attempt_id, error)
                return
            attempt = Attempt(folder, self._tools, self._forget)
            try:
                attempt.start()
            except RuntimeError as error:
                log.error("%s is not started: %s", attempt_id, error)  # no thread is to be had
                folder.delete()
                return
            self._attempts[attempt_id] = attempt

    def _adopt(self) -> None:
        """Go on with every attempt that has a folder, once the devices that these hold have been looked at."""
        adopted = []
        for folder in state_folder.found(self._settings.attempts_dir):
            try:
                adopted.append(Attempt(folder, self._tools, self._forget))
            except ValueError as error:
                log.error("%s has an order that is not understood, and is left alone: %s", folder.attempt_id, error)
        with self._lock:
            self._attempts = {attempt.id: attempt for attempt in adopted}
        self._devices.look(self._held_devices(), self._pids_of_ours)
        for attempt in adopted:
            log.info("attempt %s is taken up again", attempt.id)
            attempt.start()

    def _forget(self, attempt: Attempt) -> None:
        with self._lock:
            self._attempts.pop(attempt.id, None)

    def _heed(self, poke: Poke) -> None:
        if poke.what == "launch":
            self.launch(poke.attempt_id, poke.fence)
        else:
            self._heart.beat_soon()  # the answer says whether it should stop, and why

    def _obey(self, answer: HeartbeatAnswer) -> None:
        for verdict in answer.verdicts:
            attempt_id, fence = AttemptId(verdict.attempt_id), Fence(verdict.fence)
            with self._lock:
                attempt = self._attempts.get(attempt_id)
            if attempt is not None and attempt.fence == fence:
                if verdict.verdict == "stop":
                    attempt.stop(endings.stop_reason(verdict.reason))
                elif verdict.verdict == "remove":
                    attempt.drop()
            elif verdict.verdict != "keep" and self._orphans.condemn(attempt_id, fence):
                self._sweep_now.set()
        for assigned in answer.assigned:
            self.launch(AttemptId(assigned.attempt_id), Fence(assigned.fence))
        if self._images is not None:
            self._images.heed(answer.images)

    def _sweep(self) -> None:
        while not self._leaving.is_set():
            self._sweep_now.wait(SWEEP_S)
            self._sweep_now.clear()
            if self._leaving.is_set():
                return
            try:
                self._orphans.sweep()
                self._renewal.renew_if_due()
                if self._levels.probe_missing():
                    self._heart.register_again()
            except Exception:
                log.exception("a sweep failed and is tried again")  # edge of the thread: the next one may do better

    def _is_ours(self, attempt_id: AttemptId) -> bool:
        with self._lock:
            return attempt_id in self._attempts

    def _held(self) -> list[HeldSandbox]:
        with self._lock:
            own = [attempt.held() for attempt in self._attempts.values()]
        return own + self._orphans.held()

    def _held_devices(self) -> frozenset[str]:
        with self._lock:
            return frozenset(uuid for attempt in self._attempts.values() for uuid in attempt.held_devices)

    def _used_images(self) -> frozenset[str]:
        with self._lock:
            return frozenset(image for attempt in self._attempts.values() if (image := attempt.image) is not None)

    def _pids_of_ours(self) -> frozenset[int]:
        """Asked only when a device shows a process; it decides nothing but what that process is called."""
        pids: set[int] = set()
        for box in self._boxes.values():
            try:
                for held in box.list():
                    pids |= box.pids(held.sandbox_id)
            except (SandboxFault, OSError) as fault:
                log.warning("the processes of level %s are not known: %s", box.level.value, fault)
        return frozenset(pids)

    def _facts(self) -> NodeFacts:
        devices = self._devices.reports(self._held_devices())
        levels = self._levels.reports()
        return node_facts(self._settings, self._devices.inventory, devices, levels, self._hints_password_sha256)

    def _problems(self) -> list[str]:
        return [*self._devices.inventory.problems, *self._orphans.problems()]
