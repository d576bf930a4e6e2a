"""Keys that were made by keys: of which keys one is the child. A key's parent never changes."""

from sqlalchemy import bindparam, select
from sqlmodel import Session

from domain.ids import KeyId
from store.base import table_of
from store.tables import ApiKey

_KEY = table_of(ApiKey)
_PARENT = select(_KEY.c.parent_key_id).where(_KEY.c.id == bindparam("of"))
_CHILDREN = select(_KEY.c.id, _KEY.c.parent_key_id).where(_KEY.c.parent_key_id.is_not(None))


def key_chain(session: Session, key_id: str | None) -> tuple[KeyId, ...]:
    """The key, and those of which it is a child, the topmost first; nothing for None. A session asks once."""
    known: dict[str, tuple[KeyId, ...]] = session.info.setdefault("key_chains", {})
    if key_id is None:
        return ()
    if key_id not in known:
        parent = session.connection().execute(_PARENT, {"of": key_id}).scalar_one_or_none()
        known[key_id] = (*key_chain(session, parent), KeyId(key_id))
    return known[key_id]


def key_chains(session: Session) -> dict[str, tuple[KeyId, ...]]:
    """The same of every key that is another's child, in one statement."""
    parents = {row.id: row.parent_key_id for row in session.connection().execute(_CHILDREN)}
    chains: dict[str, tuple[KeyId, ...]] = {}
    for key_id in parents:
        chain, step = [KeyId(key_id)], parents[key_id]
        while step is not None:
            chain.append(KeyId(step))
            step = parents.get(step)
        chains[key_id] = tuple(reversed(chain))
    return chains
