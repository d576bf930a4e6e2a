"""One pull of an image, which any number of threads may wait for and watch."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.contract import SandboxFault

log = logging.getLogger(__name__)

OVER = frozenset({"Already exists", "Pull complete"})


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it has come. The sizes are those of the layers that have been announced so far."""

    layers_done: int
    layers: int
    bytes_done: int
    bytes_total: int


@dataclass(slots=True)
class _Layer:
    bytes_done: int = 0
    bytes_total: int = 0
    is_done: bool = False


class Pull:
    """Begun once; over when the image is here or cannot be brought."""

    def __init__(self, reference: str, work: Callable[["Pull"], None]) -> None:
        """`work` brings the image, on the pull's own thread, and raises what is wrong."""
        self.reference = reference
        self._work = work
        self._over = threading.Event()
        self._fault: Exception | None = None
        self._layers: dict[str, _Layer] = {}
        self._thread = threading.Thread(target=self._run, name=f"pull-{reference[-12:]}", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def wait(self, timeout_s: float | None) -> bool:
        """Whether it is over."""
        return self._over.wait(timeout_s)

    def result(self) -> None:
        """Wait for its end.

        Raises:
            ImageMissing: the registry does not have it, does not answer, or sends something else.
            EngineAway: the engine broke off.
        """
        self._over.wait()
        if self._fault is not None:
            raise self._fault

    def progress(self) -> Progress:
        """How far it has come."""
        layers = list(self._layers.values())
        return Progress(
            layers_done=sum(layer.is_done for layer in layers),
            layers=len(layers),
            bytes_done=sum(layer.bytes_done for layer in layers),
            bytes_total=sum(layer.bytes_total for layer in layers),
        )

    def heard(self, line: Mapping[str, Any]) -> None:
        """A line of the engine's account. Bytes count once, as they are downloaded; unpacking them is no progress."""
        name, status = line.get("id"), line.get("status", "")
        if name is None or status.startswith("Pulling from"):
            return
        layer = self._layers.setdefault(str(name), _Layer())
        sizes = line.get("progressDetail") or {}
        if status == "Downloading":
            layer.bytes_done = int(sizes.get("current") or 0)
            layer.bytes_total = max(layer.bytes_done, int(sizes.get("total") or 0))
        elif status in ("Download complete", "Extracting", *OVER):
            layer.bytes_done = layer.bytes_total = max(layer.bytes_total, int(sizes.get("total") or 0))
            layer.is_done = status in OVER

    def _run(self) -> None:
        try:
            self._work(self)
        except (SandboxFault, OSError) as fault:
            self._fault = fault
        except Exception:
            # edge of the thread: each who waits must be told something
            log.exception("the pull of %s failed", self.reference)
            self._fault = SandboxFault("the image could not be pulled, by a fault of the platform")
        self._over.set()
