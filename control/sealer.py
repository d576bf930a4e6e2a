"""Seals the heads of all chains once a day, and keeps a copy of each seal outside of the database."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sqlalchemy import Engine
from sqlmodel import Session

from control.settings import ControlSettings
from store import seals
from store.clock import now_us
from store.engine import reading, writing
from store.leader import check_epoch
from store.seal_files import SealFiles
from store.signing import Keyring, read_keyring

T = TypeVar("T")

LOOK_SECONDS = 60.0
"""How often it looks whether a day is over."""


class Sealer:
    """Seals each day, UTC, once it is over. After a time away it makes each seal that is missing, in order.

    Args:
        epoch: of the leader; None for an operator's command, which needs no lead: two seals never get one number.
        files: None keeps no copies.
    """

    def __init__(self, engine: Engine, keyring: Keyring, files: SealFiles | None, epoch: int | None = None) -> None:
        self._engine = engine
        self._keyring = keyring
        self._files = files
        self._epoch = epoch

    def seal_if_due(self) -> None:
        """Make the seals that are due, and the copies that are missing.

        Raises:
            StaleLeader: somebody else leads.
        """
        with reading(self._engine) as session:
            moments = seals.due(session)
        for moment in moments:
            self._write(partial(self._seal, until_us=moment))
        self._keep_copies()

    def seal_now(self) -> int:
        """Seal everything up to this moment; the number of the seal."""
        number = self._write(lambda session: self._seal(session, now_us(session)))
        self._keep_copies()
        return number

    def _keep_copies(self) -> None:
        """The file comes after the commit, its note after the file: a crash between them loses none."""
        if self._files is None:
            return
        with reading(self._engine) as session:
            missing = seals.not_stored(session)
        for number in missing:
            with reading(self._engine) as session:
                self._files.write(number, seals.copy_lines(session, number))
            self._write(partial(seals.note_stored, number=number))

    def _seal(self, session: Session, until_us: int) -> int:
        return seals.make_seal(session, self._keyring, until_us).number

    def _write(self, change: Callable[[Session], T]) -> T:
        with writing(self._engine) as session:
            if self._epoch is not None:
                check_epoch(session, self._epoch)
            return change(session)


def sealer_of(engine: Engine, settings: ControlSettings, epoch: int) -> Sealer | None:
    """The sealer of a leader; None where there is no key to seal with.

    Raises:
        SigningKeyUnusable: the file of keys cannot serve.
    """
    if settings.signing_key_file is None:
        return None
    files = None if settings.seals_url is None else SealFiles(settings.seals_url)
    return Sealer(engine, read_keyring(settings.signing_key_file), files, epoch)
