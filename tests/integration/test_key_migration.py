"""Keys that were made before there were roles keep their rights."""

from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import text
from sqlmodel import Session

from domain.roles import Role
from store.engine import WRITES, open_engine
from store.keys import authenticate, hash_secret
from store.migrate import _config, migrate

TENANT = (
    "INSERT INTO tenant (id, name, weight, state, default_isolation, default_time_limit_us, chain_length, chain_head,"
    " created_us) VALUES ('ten_a', 'acme', 1, 'active', 'container', 1, 0, '', 1)"
)
KEY = (
    "INSERT INTO api_key (id, tenant_id, name, prefix, secret_sha256, role, created_us)"
    " VALUES (:id, :tenant_id, 'old', :prefix, :hash, :role, 1)"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database with no table in it, once for each engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'old.db'}"
    return str(request.getfixturevalue("empty_postgres_url"))


def test_old_keys_keep_their_rights(empty_database_url: str) -> None:
    engine = open_engine(empty_database_url)
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(text(TENANT))
        for prefix, tenant_id, role in (("aa", None, "admin"), ("bb", "ten_a", "tenant")):
            row = {"id": f"key_{prefix}", "tenant_id": tenant_id, "prefix": prefix, "role": role}
            connection.execute(text(KEY), {**row, "hash": hash_secret("s")})
    migrate(engine)
    with Session(engine) as session:
        found = [authenticate(session, f"corral_{prefix}_s").rights for prefix in ("aa", "bb")]
    assert [(each.role, each.tenant_id) for each in found] == [
        (Role.PLATFORM_ADMIN, None),
        (Role.TENANT_ADMIN, "ten_a"),
    ]
    assert all(each.is_whole for each in found)
    engine.dispose()
