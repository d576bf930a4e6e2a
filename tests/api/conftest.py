"""A served application on an empty database, an admin, and a tenant with a quota; what they do goes over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from actors import Actor, a_tenant
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import Engine
from tars import tar_of

from api.app import create_app
from api.settings import ApiSettings
from store.engine import open_engine, writing
from store.keys import mint_key
from store.master_keys import add_key
from store.signing import new_signing_key

NOWHERE = "unix:///nonexistent/corral-test-redis.sock"
"""The API needs no Redis; hints are dropped."""
IMAGE = "sha256:" + "a" * 64


@pytest.fixture
def storage_settings(tmp_path: Path) -> dict[str, Any]:
    """Where bytes are kept."""
    return {"storage_url": f"file://{tmp_path}/storage"}


@pytest.fixture
def settings(database_url: str, tmp_path: Path, storage_settings: dict[str, Any]) -> ApiSettings:
    """Settings of an API process."""
    key_file = tmp_path / "secrets.key"
    add_key(key_file)
    signing_key_file = tmp_path / "signing.key"
    new_signing_key(signing_key_file)
    return ApiSettings(
        database_url=database_url,
        redis_url=NOWHERE,
        secrets_key_file=key_file,
        signing_key_file=signing_key_file,
        **storage_settings,
    )


@pytest.fixture
def app(settings: ApiSettings) -> FastAPI:
    """The application."""
    return create_app(settings)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    """It, started. An unhandled error is a 500, as it would be for a tenant."""
    with TestClient(app, raise_server_exceptions=False) as started:
        yield started


@pytest.fixture
def admin(client: TestClient, engine: Engine) -> Actor:
    """An admin of the platform."""
    with writing(engine) as session:
        _, key = mint_key(session, None, "first")
    return Actor(client, key)


@pytest.fixture
def image(admin: Actor) -> str:
    """An image in the catalogue."""
    admin.made("/images", {"name": "busybox", "reference": IMAGE})
    return "busybox"


@pytest.fixture
def tenant(admin: Actor, image: str) -> Actor:
    """A tenant with 8 GPUs."""
    return a_tenant(admin, "acme")


@pytest.fixture
def rival(admin: Actor, image: str) -> Actor:
    """Another one."""
    return a_tenant(admin, "rival")


@pytest.fixture(scope="session")
def fuzzed_admin(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actor]:
    """The admin of a server that lives for the whole session: for tables of requests that store nothing."""
    home = tmp_path_factory.mktemp("fuzzed")
    (home / "corral.db").write_bytes(sqlite_template.read_bytes())
    url = f"sqlite:///{home}/corral.db"
    engine = open_engine(url)
    with writing(engine) as session:
        _, key = mint_key(session, None, "first")
    engine.dispose()
    served = create_app(ApiSettings(database_url=url, redis_url=NOWHERE, storage_url=f"file://{home}/storage"))
    with TestClient(served, raise_server_exceptions=False) as started:
        yield Actor(started, key)


@pytest.fixture(scope="session")
def fuzzed(fuzzed_admin: Actor) -> Actor:
    """A tenant there, and the image that `a_job` names."""
    fuzzed_admin.made("/images", {"name": "busybox", "reference": IMAGE})
    return a_tenant(fuzzed_admin, "fuzzed")


@pytest.fixture
def a_tar() -> bytes:
    """A plain tar of one file."""
    return tar_of({"data.txt": b"12\n30\n"})
