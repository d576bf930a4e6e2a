"""Keeps the nodes' users on Redis as the database says; a Redis that forgot them learns them anew."""

from sqlalchemy import Engine

from hints.node_users import NodeUsers
from store.engine import reading
from store.watch import hints_passwords

KEEP_SECONDS = 10.0


class NodeUserKeeper:
    """For one thread."""

    def __init__(self, engine: Engine, users: NodeUsers) -> None:
        self._engine = engine
        self._users = users

    def keep(self) -> None:
        """Let exactly the nodes in that may be there now."""
        with reading(self._engine) as session:
            passwords = hints_passwords(session)
        self._users.keep(passwords)
