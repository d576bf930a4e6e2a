"""Who leads the control plane: a row with a holder, an epoch and a beat.

The leader raises the beat. A standby that saw the same beat for long enough, by its own clock, takes over with the next
epoch. Every commit of a leader checks its epoch under a lock, so that one who was stopped and wakes up can do no harm.
"""

from dataclasses import dataclass

from sqlalchemy import text, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col, select

from domain.errors import StaleLeader
from store.tables import Leader

NAME = "control"
STUCK_MS = 10_000
"""A leader that is stopped in the middle of a transaction holds the row no longer than this (PostgreSQL)."""
_END_WHEN_STUCK = text(f"SET LOCAL idle_in_transaction_session_timeout = {STUCK_MS}")


@dataclass(frozen=True, slots=True)
class Lease:
    """The row, as an observer saw it."""

    holder: str
    """Empty when the last leader stepped down."""
    epoch: int
    beat: int


def ensure_lease(session: Session) -> None:
    """Make the row, if it is not there yet."""
    insert = postgres_insert if _is_postgres(session) else sqlite_insert
    session.execute(insert(Leader).values(name=NAME, holder="", epoch=0, beat=0).on_conflict_do_nothing())


def read_lease(session: Session) -> Lease | None:
    """The row as it stands; None before `ensure_lease`."""
    row = session.exec(select(Leader.holder, Leader.epoch, Leader.beat).where(Leader.name == NAME)).first()
    return None if row is None else Lease(*row)


def take_lease(session: Session, holder: str, seen: Lease) -> int | None:
    """The new epoch, if nobody moved the lease since it was `seen`."""
    taken = session.execute(
        update(Leader)
        .where(col(Leader.name) == NAME, col(Leader.epoch) == seen.epoch, col(Leader.beat) == seen.beat)
        .values(holder=holder, epoch=seen.epoch + 1, beat=seen.beat + 1)
    )
    return seen.epoch + 1 if taken.rowcount == 1 else None  # type: ignore[attr-defined]


def renew_lease(session: Session, epoch: int) -> None:
    """Show that the leader lives.

    Raises:
        StaleLeader: somebody else leads.
    """
    renewed = session.execute(
        update(Leader).where(col(Leader.name) == NAME, col(Leader.epoch) == epoch).values(beat=Leader.beat + 1)
    )
    if renewed.rowcount != 1:  # type: ignore[attr-defined]
        raise StaleLeader(epoch)


def release_lease(session: Session, epoch: int) -> None:
    """Step down, so that the next one leads at once. Changes nothing if somebody else leads already."""
    session.execute(
        update(Leader)
        .where(col(Leader.name) == NAME, col(Leader.epoch) == epoch)
        .values(holder="", epoch=epoch + 1, beat=Leader.beat + 1)
    )


def check_epoch(session: Session, epoch: int) -> None:
    """Hold the lease until this transaction's end; call it first in each.

    A takeover waits for the transactions that passed this check, and those that come after it fail here.

    Raises:
        StaleLeader: somebody else leads.
    """
    if _is_postgres(session):
        session.execute(_END_WHEN_STUCK)
    current = session.exec(
        select(Leader.epoch).where(Leader.name == NAME).with_for_update(read=True)  # FOR SHARE; on SQLite nothing
    ).first()
    if current != epoch:
        raise StaleLeader(epoch)


def _is_postgres(session: Session) -> bool:
    return session.get_bind().dialect.name == "postgresql"
