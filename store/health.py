"""Whether the database answers, and how it is known that it does not."""

from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from store.engine import reading

DATABASE_AWAY: tuple[type[Exception], ...] = (OperationalError, InterfaceError, PoolTimeout)
"""What a transaction raises when the database is away, restarts or is too busy; nothing of it was stored."""
CLASH: tuple[type[Exception], ...] = (IntegrityError,)
"""What it raises when another one stored the same thing at the same moment; the next try sees that."""


def has_lost_to_another(error: Exception) -> bool:
    """Whether the database gave up this transaction for another one that stood in its way, and not for want of itself.

    Nothing of it was stored, and it may be tried again at once. (SQLSTATE class 40: deadlocks, serialization.)
    """
    return str(getattr(getattr(error, "orig", None), "sqlstate", None) or "").startswith("40")


def is_answering(engine: Engine) -> bool:
    """Whether the simplest question gets an answer."""
    try:
        with reading(engine) as session:
            return bool(session.connection().execute(text("SELECT 1")).scalar_one() == 1)
    except DATABASE_AWAY:
        return False
