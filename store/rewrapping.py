"""Rotation of the master key: every data key is wrapped again by the newest, and no value is touched."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import Engine, Table, select, update

from store import webhooks
from store.base import table_of
from store.engine import reading, writing
from store.sealing import MasterKeys, rewrap
from store.secrets import place_of
from store.tables import Secret, Webhook

_SECRET: Final = table_of(Secret)
_WEBHOOK: Final = table_of(Webhook)
SEALED: Final[Sequence[tuple[Table, Callable[[Any], str]]]] = (
    (_SECRET, lambda row: place_of(row.tenant_id, row.name)),
    (_WEBHOOK, lambda row: webhooks.place_of(row.id)),
)
"""Every table with a column `wrapped_key`, and to which place the row's envelope is bound."""


def rewrap_all(engine: Engine, keys: MasterKeys) -> int:
    """Wrap what an older master key wrapped; how many there were. Called again after a failure, it does the rest.

    Raises:
        CannotUnseal: the key of one is gone; those before it are done.
        SealingAway: the keys cannot be had now.
    """
    return sum(_rewrap(engine, keys, table, place) for table, place in SEALED)


def _rewrap(engine: Engine, keys: MasterKeys, table: Table, place: Callable[[Any], str]) -> int:
    with reading(engine) as session:
        rows = session.connection().execute(select(table)).all()
    done = 0
    for row in rows:
        if keys.is_newest(row.wrapped_key):
            continue
        fresh = rewrap(keys, row.wrapped_key, place(row))  # the program may take its time: in no transaction
        mine = [column == getattr(row, column.name) for column in table.primary_key]
        with writing(engine) as session:
            session.connection().execute(
                update(table).where(*mine, table.c.wrapped_key == row.wrapped_key).values(wrapped_key=fresh)
            )
        done += 1
    return done
