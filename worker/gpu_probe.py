"""Asks for the node's GPUs from outside: NVML runs in a child process, which is given up when it does not answer.

Losing sight of a GPU never takes it off the list, and never says that it is free.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from worker.devices import Device, Inventory

DEADLINE_S = 10.0
_FAREWELL_S = 1.0
"""How long a killed child may take to be gone before it counts as stuck in the kernel."""
_LONGEST_COMPLAINT = 300
_INVENTORY = TypeAdapter(Inventory)


class GpuProbe:
    """Looks at the GPUs, as often as it is asked, with never more than one child at a time.

    `library_dir` holds the `libnvidia-ml.so.1` to use; without it, the system's own. `last_known` are the devices that
    this node had before (from its journal), so that one which vanished while the agent was away is missed.
    """

    def __init__(
        self,
        library_dir: Path | None = None,
        deadline_s: float = DEADLINE_S,
        last_known: Iterable[Device] = (),
    ) -> None:
        self._environment = _child_environment(library_dir)
        self._deadline_s = deadline_s
        self._last = Inventory(devices=tuple(last_known))
        self._stuck: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def read(self) -> Inventory:
        """What is there now. Returns within the deadline and two seconds, whatever the driver does; callers queue.

        When NVML does not answer, or its process dies, it is the last known inventory with every device sick.
        """
        with self._one_at_a_time:
            try:
                self._last = self._look().remembering(self._last.devices)
            except _NoAnswer as silence:
                self._last = self._last.unanswered(str(silence))
            return self._last

    def forget(self, uuid: str) -> None:
        """Stop missing a device that was taken out on purpose. One that is there is back with the next look."""
        with self._one_at_a_time:
            kept = tuple(device for device in self._last.devices if device.uuid != uuid)
            self._last = replace(self._last, devices=kept)

    def _look(self) -> Inventory:
        self._refuse_while_stuck()
        child = self._start()
        try:
            output, complaint = child.communicate(timeout=self._deadline_s)
        except subprocess.TimeoutExpired:
            self._give_up(child)
            raise _NoAnswer(f"NVML does not answer: no inventory within {self._deadline_s:g} s") from None
        if child.returncode != 0:
            raise _NoAnswer(f"NVML does not answer: {_how_it_ended(child.returncode, complaint)}")
        try:
            return _INVENTORY.validate_json(output)
        except ValidationError as error:
            raise _NoAnswer(f"NVML does not answer: its process said nonsense ({error.error_count()} errors)") from None

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: nothing in the working folder can stand in for a module
        command = [sys.executable, "-P", "-m", "worker.gpus", str(self._deadline_s + _FAREWELL_S)]
        try:
            return subprocess.Popen(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise _NoAnswer(f"NVML does not answer: its process cannot be started ({error})") from error

    def _refuse_while_stuck(self) -> None:
        if self._stuck is not None and self._stuck.poll() is None:
            raise _NoAnswer(
                f"NVML does not answer: process {self._stuck.pid} is stuck in the driver since an earlier look"
            )
        self._stuck = None

    def _give_up(self, child: subprocess.Popen[bytes]) -> None:
        """Kill it, with what the library may have started. It is waited for only briefly: in the kernel it can stay."""
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        try:
            child.wait(timeout=_FAREWELL_S)
        except subprocess.TimeoutExpired:
            self._stuck = child


class _NoAnswer(Exception):
    """The look failed as a whole; the text is for people."""


def _child_environment(library_dir: Path | None) -> dict[str, str]:
    """Nothing of ours but where to import from: the driver's library reads the environment, and so would a debugger."""
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    return environment if library_dir is None else environment | {"LD_LIBRARY_PATH": str(library_dir)}


def _how_it_ended(returncode: int, complaint: bytes) -> str:
    how = f"its process was ended by signal {-returncode}" if returncode < 0 else f"its process ended with {returncode}"
    lines = complaint.decode(errors="replace").strip().splitlines()
    last = "".join(letter for letter in lines[-1] if letter.isprintable())[:_LONGEST_COMPLAINT] if lines else ""
    return f"{how} ({last})" if last else how
