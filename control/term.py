"""One term of leading: dispatcher, sweeper, biller, treasurer and sealer, a thread each, all under one epoch."""

import logging
import threading
from collections.abc import Callable

from sqlalchemy import Engine

from control.biller import LOOK_SECONDS, Biller
from control.deliveries import LOOK_SECONDS as DELIVER_SECONDS
from control.deliveries import Deliverer
from control.dispatcher import Dispatcher
from control.metrics import Metrics
from control.node_users import KEEP_SECONDS, NodeUserKeeper
from control.sealer import LOOK_SECONDS as SEAL_LOOK_SECONDS
from control.sealer import sealer_of
from control.settings import ControlSettings
from control.sweeper import SWEEP_SECONDS, Sweeper
from control.treasurer import LOOK_SECONDS as LOOK_AT_PURSES_SECONDS
from control.treasurer import Treasurer
from domain.errors import StaleLeader
from hints.node_users import NodeUsers
from hints.sender import Hints
from hints.wake import WakeUp
from store.health import DATABASE_AWAY
from store.master_keys import master_keys

log = logging.getLogger(__name__)

FIRST_BACK_OFF_SECONDS = 0.5
MOST_BACK_OFF_SECONDS = 10.0


class Term:
    """Runs from its making until `end`, or until somebody else leads."""

    def __init__(self, engine: Engine, settings: ControlSettings, hints: Hints, epoch: int, metrics: Metrics) -> None:
        self._stop = threading.Event()
        self._hints = hints
        self._wake = WakeUp(settings.redis_url)
        dispatcher = Dispatcher(engine, hints, epoch, metrics)
        sweeper = Sweeper(engine, hints, epoch)
        biller = Biller(engine, epoch)
        sealer = sealer_of(engine, settings, epoch)
        treasurer = Treasurer(engine, hints, epoch)
        self._node_users = NodeUsers(settings.redis_url)
        keeper = NodeUserKeeper(engine, self._node_users)
        keys = master_keys(settings.secrets_key_file, settings.secrets_kms_command)
        self._deliverer = Deliverer(engine, epoch, keys, settings.webhook_rules)
        self._threads = [
            self._start("dispatcher", lambda: dispatcher.serve_once(self._wake), 0),
            self._start("sweeper", sweeper.sweep, SWEEP_SECONDS),
            self._start("deliverer", self._deliverer.look, DELIVER_SECONDS),
            self._start("biller", biller.post_if_due, LOOK_SECONDS),
            self._start("treasurer", treasurer.look, LOOK_AT_PURSES_SECONDS),
            *([] if sealer is None else [self._start("sealer", sealer.seal_if_due, SEAL_LOOK_SECONDS)]),
            self._start("keeper of node users", keeper.keep, KEEP_SECONDS),
        ]

    @property
    def is_over(self) -> bool:
        """Whether one of them found that somebody else leads."""
        return self._stop.is_set()

    def end(self) -> None:
        """Stop them, and wait until they have; each finishes what it is committing."""
        self._stop.set()
        self._hints.wake()  # so that the dispatcher sees it now
        for thread in self._threads:
            thread.join()
        self._deliverer.close()
        self._wake.close()
        self._node_users.close()

    def _start(self, name: str, step: Callable[[], None], pause_seconds: float) -> threading.Thread:
        thread = threading.Thread(target=self._repeat, args=(name, step, pause_seconds), name=name, daemon=True)
        thread.start()
        return thread

    def _repeat(self, name: str, step: Callable[[], None], pause_seconds: float) -> None:
        back_off = FIRST_BACK_OFF_SECONDS
        while not self._stop.is_set():
            try:
                step()
            except StaleLeader:
                log.warning("the %s stops: somebody else leads", name)
                self._stop.set()
            except DATABASE_AWAY as error:
                log.warning("the %s can't reach the database (%s); next try in %.1f s", name, error.args[:1], back_off)
                self._stop.wait(back_off)
                back_off = min(back_off * 2, MOST_BACK_OFF_SECONDS)
            except Exception:  # the edge of a thread that must go on: the next step may well succeed
                log.exception("the %s failed; next try in %.1f s", name, back_off)
                self._stop.wait(back_off)
                back_off = min(back_off * 2, MOST_BACK_OFF_SECONDS)
            else:
                back_off = FIRST_BACK_OFF_SECONDS
                self._stop.wait(pause_seconds)
