"""What the OpenAPI document allows, and what lies just beyond it, is answered by a view or a problem, never a 500."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import pytest
import schemathesis
import schemathesis.openapi
from actors import Actor, a_job, a_tenant
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from node_actor import a_worker
from schemathesis import GenerationMode
from schemathesis.schemas import APIOperation
from sqlalchemy import Engine

from api.app import create_app
from api.settings import ApiSettings
from store.engine import open_engine, writing
from store.keys import mint_key
from store.master_keys import add_key

SETTINGS = ApiSettings(database_url="sqlite://", redis_url="unix:///nowhere", storage_url="memory://document")
Operation = APIOperation[Any, Any, Any, Any]
EXAMPLES = 4
"""Of each operation, as each caller."""
IMAGE = "sha256:" + "a" * 64


@schemathesis.serializer("application/x-tar")
def tar(_context: Any, value: Any) -> bytes:
    """Bytes of any kind."""
    return _bytes(value)


def operations() -> list[Operation]:
    """Every operation of the document."""
    document = schemathesis.openapi.from_dict(create_app(SETTINGS).openapi())
    return [found.ok() for found in document.get_all_operations()]


OPERATIONS = operations()


class World:
    """A served application with one of everything, and those who may call it."""

    def __init__(self, client: TestClient, engine: Engine) -> None:
        with writing(engine) as session:
            _, key = mint_key(session, None, "first")
        admin = Actor(client, key)
        self.client = client
        admin.made("/images", {"name": "busybox", "reference": IMAGE})
        tenant = a_tenant(admin, "acme")
        webhook = tenant.made("/webhooks", {"url": "https://example.com/"})
        delivery = tenant.post(f"/webhooks/{webhook['id']}/test").json()
        worker = a_worker(admin, client)
        self.callers = {"platform admin": admin, "tenant admin": tenant, "node": worker.actor}
        self.ids = {
            "job_id": tenant.made("/jobs", a_job())["id"],
            "tenant_id": tenant.tenant_id,
            "webhook_id": webhook["id"],
            "delivery_id": delivery["id"],
            "node_id": admin.get("/nodes").json()["items"][0]["id"],
        }

    def answer(self, caller: str, case: Any, ids: Mapping[str, str]) -> httpx2.Response:
        """What the caller is answered; some of the path's ids may be replaced by those of real things."""
        for name in set(ids) & set(case.path_parameters or {}):
            case.path_parameters[name] = ids[name]
        sent = case.as_transport_kwargs(base_url="http://testserver")
        content = {"json": sent["json"]} if sent.get("json") is not None else {"content": _bytes(sent.get("data"))}
        headers = {**_latin(sent.get("headers") or {}), "Authorization": f"Bearer {self.callers[caller].key}"}
        params = {name: value for name, value in (sent.get("params") or {}).items() if name != "follow"}
        return self.client.request(sent["method"], sent["url"], params=params, headers=headers, **content)


@pytest.fixture(scope="session")
def world(sqlite_template: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all operations, without limits of rates."""
    home = tmp_path_factory.mktemp("document")
    (home / "corral.db").write_bytes(sqlite_template.read_bytes())
    add_key(home / "keys")
    free = {f"rate_{kind}": "" for kind in ("reads", "writes", "submissions", "nodes", "failures", "open")}
    app = create_app(
        ApiSettings(
            database_url=f"sqlite:///{home}/corral.db",
            redis_url="unix:///nonexistent/corral-test-redis.sock",
            storage_url=f"file://{home}/storage",
            secrets_key_file=home / "keys",
            **free,
        )
    )
    engine = open_engine(f"sqlite:///{home}/corral.db")
    with TestClient(app, raise_server_exceptions=False) as client:
        yield World(client, engine)
    engine.dispose()


def callers_of(operation: Operation) -> list[str]:
    return ["node"] if operation.path.startswith("/v1/node/") else ["platform admin", "tenant admin"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.label)
def test_no_request_breaks_the_server(world: World, operation: Operation) -> None:
    @settings(
        max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def sent(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
        if not can_be_wrong(operation):
            mode = GenerationMode.POSITIVE
        case = data.draw(operation.as_strategy(generation_mode=mode))
        ids = data.draw(st.sampled_from([{}, world.ids]))
        for caller in callers_of(operation):
            answer = world.answer(caller, case, ids)
            assert answer.status_code < 500 or answer.json()["code"] == "unavailable", answer.text
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == "application/problem+json"

    sent()


def can_be_wrong(operation: Operation) -> bool:
    """Whether there is anything in it that a request could get wrong."""
    return bool(operation.query or operation.body)


def _bytes(data: Any) -> bytes:
    if data is None:
        return b""
    return data if isinstance(data, bytes) else str(data).encode("utf-8", "replace")


def _latin(headers: Mapping[str, Any]) -> dict[str, str]:
    """Headers that a client can send."""
    return {name: str(value) for name, value in headers.items() if str(value).isascii() and str(value).isprintable()}
