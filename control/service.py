"""The control process: stands by until it leads, and leads until it is stopped or overtaken."""

import logging
import signal
import threading

from control.clock import boot_seconds
from control.leadership import RENEW_SECONDS, WATCH_SECONDS, Leadership
from control.metrics import Metrics
from control.settings import ControlSettings
from control.term import Term
from hints.sender import Hints
from store.engine import open_engine
from store.health import DATABASE_AWAY
from store.signing import read_keyring

log = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS = 8.0
"""Between two tries to reach a database that is away; under the lease, so that a leader comes back in time."""


LOOK_SECONDS = 0.2
"""How often the main thread looks whether it was asked to end."""


class ControlService:
    """Leadership, and a term of service for each time that it is won."""

    def __init__(self, settings: ControlSettings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._engine = open_engine(settings.database_url)
        self._hints = Hints(settings.redis_url)
        self._metrics = Metrics()
        if settings.signing_key_file is None:
            log.warning("no chains are sealed: there is no CORRAL_SIGNING_KEY_FILE")
        else:
            read_keyring(settings.signing_key_file)  # refused now, and not when this process first leads
        self._leadership = Leadership(self._engine, settings.holder, boot_seconds)
        self._term: Term | None = None

    def stop(self) -> None:
        """Let `serve` return, soon."""
        self._stop.set()

    def serve(self) -> None:
        """Stand by or lead, until `stop`. Blocks."""
        if self._settings.control_metrics_port is not None:
            self._metrics.serve(self._settings.control_metrics_port, self._settings.control_metrics_host)
        self._hints.warm()
        pause = WATCH_SECONDS
        while not self._stop.is_set():
            try:
                self._follow(self._leadership.step())
                pause = WATCH_SECONDS if self._term is None else RENEW_SECONDS
            except DATABASE_AWAY as error:
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                log.warning("the database can't be reached (%s); next try in %.1f s", error.args[:1], pause)
            self._stop.wait(pause)
        self._close()

    def _follow(self, epoch: int | None) -> None:
        """Begin or end a term, as the lease says."""
        if self._term is not None and (epoch is None or self._term.is_over):
            log.warning("this process leads no more")
            self._end_term()
        if self._term is None and epoch is not None:
            log.info("this process leads, in epoch %d", epoch)
            self._term = Term(self._engine, self._settings, self._hints, epoch, self._metrics)
            self._metrics.is_leader.set(1)

    def _end_term(self) -> None:
        if self._term is not None:
            self._metrics.is_leader.set(0)
            self._term.end()
            self._term = None

    def _close(self) -> None:
        self._end_term()
        try:
            self._leadership.step_down()
        except DATABASE_AWAY:
            log.warning("the lease could not be given back; the next leader waits until it has run out")
        self._hints.close()
        self._engine.dispose()


def run(settings: ControlSettings) -> None:
    """Serve until SIGTERM or SIGINT. Call it in the main thread."""
    asked: list[int] = []  # a handler may run in the middle of anything, and so must take no lock
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: asked.append(received))
    service = ControlService(settings)
    thread = threading.Thread(target=service.serve, name="leadership", daemon=True)
    thread.start()
    while thread.is_alive() and not asked:
        thread.join(LOOK_SECONDS)
    service.stop()
    thread.join()
    if not asked:
        raise SystemExit("the control process ended by an error, which its log tells")
