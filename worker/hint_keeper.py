"""Keeps the node's Celery process running beside the agent, and ends it with it."""

import logging
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from domain.ids import NodeId

log = logging.getLogger(__name__)

ENVIRONMENT_URL = "CORRAL_HINTS_REDIS_URL"
"""The URL may hold a password, so it is not among the arguments, which every user of the machine can read."""
SHORT_LIFE_S = 30.0
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
FAREWELL_S = 5.0


@dataclass(frozen=True, slots=True)
class HintSettings:
    """What the process is given by the agent."""

    redis_url: str
    node_id: NodeId
    poke_socket: Path


class HintKeeper:
    """Without hints nothing is lost: the heartbeat brings what is assigned. So nothing here is fatal."""

    def __init__(self, settings: HintSettings) -> None:
        self._settings = settings
        self._leaving = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name="hints", daemon=True)

    def start(self) -> None:
        """Start the process, and again whenever it ends."""
        self._thread.start()

    def close(self) -> None:
        """End the process."""
        self._leaving.set()
        child = self._child
        if child is not None:
            child.terminate()
            try:
                child.wait(FAREWELL_S)
            except subprocess.TimeoutExpired:
                child.kill()
        self._thread.join(FAREWELL_S)

    def _keep(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._leaving.is_set():
            began_s = time.monotonic()
            child = self._start()
            if child is not None:
                code = child.wait()
                if self._leaving.is_set():
                    return
                log.warning("the process that takes hints ended with %s and is started again", code)
            pause_s = FIRST_PAUSE_S if time.monotonic() - began_s > SHORT_LIFE_S else min(pause_s * 2, LONGEST_PAUSE_S)
            self._leaving.wait(pause_s)

    def _start(self) -> subprocess.Popen[bytes] | None:
        command = [sys.executable, "-P", "-m", "worker.hint_process"]
        command += [self._settings.node_id, str(self._settings.poke_socket)]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
            ENVIRONMENT_URL: self._settings.redis_url,
        }
        try:
            self._child = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        except OSError as error:
            log.error("the process that takes hints cannot be started: %s", error)
            return None
        if self._leaving.is_set():
            self._child.kill()
        return self._child
