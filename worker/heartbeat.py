"""The node's sign of life: what it holds and what its devices look like; and back, what to do with each sandbox."""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from corral.node import Heartbeat, HeartbeatAnswer, HeldSandbox, ImageReport, NodeFacts, Registration

from sandbox import boot_clock
from worker.api_link import ApiFault, ApiLink, Away, Refused
from worker.contact import FIRST_WAIT_S, LONGEST_WAIT_S, Contact
from worker.device_watch import DeviceWatch

log = logging.getLogger(__name__)

SHORTEST_PAUSE_S = 0.02
"""Between two beats, however often one is called for."""
PROBLEMS_MAX = 50
PROBLEM_CHARACTERS_MAX = 500


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a heartbeat is made of, and who hears its answer."""

    facts: Callable[[], NodeFacts]
    held: Callable[[], list[HeldSandbox]]
    held_devices: Callable[[], frozenset[str]]
    pids_of_ours: Callable[[], frozenset[int]]
    problems: Callable[[], list[str]]
    images: Callable[[], list[ImageReport]]
    on_answer: Callable[[HeartbeatAnswer], None]


class Heart:
    """Registers, then beats, on a thread of its own; an answer that does not come is waited for by trying again."""

    def __init__(
        self,
        pulse: Pulse,
        api: ApiLink,
        contact: Contact,
        devices: DeviceWatch,
        leaving: threading.Event,
        interval_s: float | None,
    ) -> None:
        """`interval_s` None: as the API says when the node registers."""
        self._pulse = pulse
        self._api = api
        self._contact = contact
        self._devices = devices
        self._leaving = leaving
        self._own_interval_s = interval_s
        self._interval_s = interval_s or 10.0
        self._wake = threading.Event()
        self._must_register = True
        self._looked_s = -math.inf
        self._away_pause_s = FIRST_WAIT_S
        self._thread = threading.Thread(target=self._live, name="heart", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def beat_soon(self) -> None:
        """Beat now, because the answer may hold news."""
        self._wake.set()

    def register_again(self) -> None:
        """What the node is has changed."""
        self._must_register = True
        self._wake.set()

    def close(self) -> None:
        """Let the beat under way end. The agent is leaving."""
        self._wake.set()
        self._thread.join(timeout=5)

    def _live(self) -> None:
        while not self._leaving.is_set():
            pause_s = self._try()
            self._leaving.wait(SHORTEST_PAUSE_S)
            self._wake.wait(pause_s)
            self._wake.clear()

    def _try(self) -> float:
        """Register or beat, once; the seconds until the next time."""
        try:
            if self._must_register:
                self._register()
            self._beat()
        except Away as fault:
            log.warning("the API is away: %s", fault)
        except Refused as refusal:
            log.warning("the API wants this node to register again: %s", refusal)
            self._must_register = True
        except ApiFault as fault:
            log.error("the API does not know this node: %s", fault)
        except Exception:
            log.exception("a heartbeat failed and is tried again")  # edge of the thread: life must go on
        else:
            self._away_pause_s = FIRST_WAIT_S
            return self._interval_s
        self._away_pause_s = min(self._away_pause_s * 2, LONGEST_WAIT_S)
        return self._away_pause_s

    def _register(self) -> None:
        self._look()
        registered = self._api.register(Registration(facts=self._pulse.facts()))
        self._must_register = False
        self._interval_s = self._own_interval_s or float(registered.heartbeat_seconds)
        log.info("registered as %s (%s)", registered.node_name, registered.node_id)

    def _beat(self) -> None:
        if time.monotonic() - self._looked_s > self._interval_s / 2:
            self._look()  # a beat that was called for is about sandboxes, and need not look again
        held = self._pulse.held()
        body = Heartbeat(
            boot_id=boot_clock.boot_id(),
            devices=self._devices.reports(self._pulse.held_devices()),
            held=held,
            images=self._pulse.images(),
            problems=[text[:PROBLEM_CHARACTERS_MAX] for text in self._pulse.problems()[:PROBLEMS_MAX]],
        )
        sent_us = boot_clock.now_us()
        answer = self._api.heartbeat(body)
        self._devices.learn_generations(answer.generations)
        self._contact.acknowledged(sent_us)
        self._pulse.on_answer(answer)

    def _look(self) -> None:
        self._looked_s = time.monotonic()
        self._devices.look(self._pulse.held_devices(), self._pulse.pids_of_ours)
