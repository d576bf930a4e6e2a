"""What must stand in the database before anybody can log in, and what of it exists once only."""

from dataclasses import dataclass

from sqlalchemy import Engine
from sqlmodel import col, select

from store.engine import writing
from store.images import admit_image
from store.keys import mint_key
from store.migrate import migrate
from store.node_tokens import make_join_token
from store.tables import ApiKey, Image

JOIN_TOKEN_US = 600_000_000


@dataclass(frozen=True, slots=True)
class FirstStart:
    """What came out of it."""

    admin_key: str | None
    """The first admin's key; None if there was one already. It is shown once and not kept."""


def prepare_database(engine: Engine) -> FirstStart:
    """Bring the tables up to date; make the first admin's key and the image `host` if they are not there."""
    migrate(engine)
    with writing(engine) as session:
        has_admin = session.exec(select(ApiKey.id).where(col(ApiKey.tenant_id).is_(None))).first() is not None
        admin_key = None if has_admin else mint_key(session, None, "first admin key")[1]
        if session.get(Image, "host") is None:
            admit_image(session, "host", "host", None, "the node's own files, read-only (level process)")
    return FirstStart(admin_key)


def new_admin_key(engine: Engine) -> str:
    """One more admin key, for an operator who lost the first: who can write the database rules the platform anyway."""
    with writing(engine) as session:
        return mint_key(session, None, "made by the operator")[1]


def join_token(engine: Engine, node_name: str) -> str:
    """A token with which the node beside this database joins."""
    with writing(engine) as session:
        return make_join_token(session, node_name, JOIN_TOKEN_US)[0]
