"""Every field of every body and query in the OpenAPI document, given what it should not take: never a 5xx, and what was
refused stored nothing. All that is sent is made from the document, so that no route is forgotten.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from actors import Actor, a_tenant
from fastapi.testclient import TestClient
from node_actor import a_worker
from sqlalchemy import inspect, text

from api.app import create_app
from api.settings import ApiSettings
from store.engine import open_engine, reading, writing
from store.keys import mint_key
from store.master_keys import add_key
from store.signing import new_signing_key

NOWHERE = "unix:///nonexistent/corral-test-redis.sock"
DOCUMENT: Mapping[str, Any] = create_app(
    ApiSettings(database_url="sqlite://", redis_url=NOWHERE, storage_url="memory://values")
).openapi()
NUMBERS = ("-1", "0", "1.5", '"1"', "true", "null", "1" + "0" * 18, "1e308", "NaN", "1e999", "9" * 5000, str(2**63))
TEXTS = ("null", "7", *map(json.dumps, (
    "a\0b", "a\ud800b", "abc\u202edef", "\x1b[2Jgone", "a\r\n2026-01-01 ERROR forged", "", "../..", "x" * 200_000,
)))  # fmt: skip
OTHERS = ("null", "[]", "{}", '"x"', "-1", "[" * 100_000)
FUTURE_US = 4_000_000_000_000_000
SAMPLES: Mapping[str, Any] = {
    "after": [],
    "amount_micro": 1000,
    "command": ["true"],
    "cuda": "12.4",
    "currency": "USD",
    "default_time_limit": "1h",
    "email": "a@example.org",
    "env": {"A": "1"},
    "expires_at": FUTURE_US,
    "gpu_memory_min": "1GiB",
    "grace": "30s",
    "guaranteed": 0,
    "hints_password_sha256": "a" * 64,
    "image": "busybox",
    "images": None,
    "inputs": [],
    "isolation": "container",
    "isolation_levels": ["container"],
    "job_id": "job_" + "0" * 26,
    "jobs": [{"image": "busybox", "command": ["true"], "time_limit": "1m"}],
    "lendable": 0,
    "levels": ["container"],
    "longest_time_limit": "24h",
    "max_unreachable": "15m",
    "memory": "1GiB",
    "min_cuda": "12.4",
    "not_before": None,
    "on": ["platform"],
    "output": "1GiB",
    "parent": None,
    "parent_id": None,
    "reference": "sha256:" + "b" * 64,
    "scopes": ["usage:read"],
    "scratch": "1GiB",
    "secrets": [],
    "shm": "1GiB",
    "tenant_id": "ten_" + "0" * 26,
    "tenants": None,
    "time_limit": "1m",
    "until": FUTURE_US,
    "url": "https://example.com/",
    "valid_from": FUTURE_US,
    "verifier": "a" * 43,
    "value": "123456789",
}
"""By the name of a field: what is fine there, where the document's types don't tell."""
UNKNOWN = ("privileged", "tenant_id", "__proto__")
ADMINS = ("/v1/tenants", "/v1/images", "/v1/prices", "/v1/nodes", "/v1/adjustments", "/v1/join", "/v1/signature")
MARK = '"<here>"'
DEPTH_MAX = 8


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    about: Mapping[str, Any]

    @property
    def body(self) -> Mapping[str, Any] | None:
        found = self.about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        return None if found is None else found

    @property
    def query(self) -> list[str]:
        return [each["name"] for each in self.about.get("parameters", ()) if each["in"] == "query"]


OPERATIONS = [
    Operation(method.upper(), path, about)
    for path, methods in DOCUMENT["paths"].items()
    for method, about in methods.items()
]


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that is meant, where it names another or offers several: the richest of them."""
    if "$ref" in schema:
        return resolved(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if offered := schema.get("oneOf") or schema.get("anyOf"):
        return max(
            map(resolved, offered), key=lambda each: (each.get("type") != "null", len(each.get("properties", each)))
        )
    return schema


def full(schema: Mapping[str, Any], depth: int = 0) -> Any:
    """A value with every field in it; not always a valid one."""
    schema = resolved(schema)
    if "const" in schema or "enum" in schema:
        return schema.get("const", (schema.get("enum") or [None])[0])
    if depth > DEPTH_MAX:
        return None
    kind = schema.get("type", "string")
    if kind == "object":
        named = {
            name: SAMPLES[name] if has_sample(name, each) else full(each, depth + 1)
            for name, each in schema.get("properties", {}).items()
        }
        more = schema.get("additionalProperties")
        return named or ({"NAME": full(more, depth + 1)} if isinstance(more, dict) else {})
    if kind == "array":
        return [full(schema.get("items", {}), depth + 1)]
    if kind in ("integer", "number"):
        return int(schema.get("minimum", 0)) or 1
    return True if kind == "boolean" else schema.get("default") or "1"


def has_sample(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether the sample is meant for this one: some fields of nodes hold objects where a tenant's hold names."""
    return name in SAMPLES and not (
        name in ("images", "levels") and "properties" in resolved(resolved(schema)["items"])
    )


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Everything in it, and the way there."""
    yield way, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        yield from places(each, (*way, step))


def replaced(value: Any, way: tuple[Any, ...], by: str) -> str:
    """The JSON text with something else at one place, as it stands."""
    made = copy.deepcopy(value)
    if not way:
        return by
    at = made
    for step in way[:-1]:
        at = at[step]
    at[way[-1]] = "<here>"
    return json.dumps(made).replace(MARK, by, 1)


def bodies(schema: Mapping[str, Any]) -> Iterator[str]:
    """Every hostile body for it; each value once at each place."""
    value = full(schema)
    yield json.dumps(value)
    for way, at in places(value):
        is_number = isinstance(at, int) and not isinstance(at, bool)
        for each in NUMBERS if is_number else TEXTS if isinstance(at, str) else OTHERS:
            yield replaced(value, way, each)
    for way, at in places(value):
        if not isinstance(at, dict):
            continue
        for name in UNKNOWN:
            if name not in at:
                yield replaced(value, way, json.dumps({**at, name: "x"}))
        first = json.dumps(next(iter(at), "a"))
        yield replaced(value, way, f"{{{first}:1,{first}:1}}")


class World:
    """A served application, those who may call it, and what is stored in it."""

    def __init__(self, client: TestClient, url: str) -> None:
        self.client = client
        self.engine = open_engine(url)
        with writing(self.engine) as session:
            _, key = mint_key(session, None, "first")
        admin = Actor(client, key)
        admin.made("/images", {"name": "busybox", "reference": "sha256:" + "a" * 64})
        tenant = a_tenant(admin, "acme")
        self.ids = {
            "tenant_id": tenant.tenant_id,
            "webhook_id": tenant.made("/webhooks", {"url": "https://example.com/"})["id"],
            "job_id": tenant.made("/jobs", {"image": "busybox", "command": ["true"], "time_limit": "1m"})["id"],
        }
        self.callers = {"admin": admin, "tenant": tenant, "node": a_worker(admin, client).actor}
        self.tables = sorted(inspect(self.engine).get_table_names())

    def rows(self) -> dict[str, int]:
        with reading(self.engine) as session:
            counts = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM \"{name}\"" for name in self.tables)
            return {str(name): int(count) for name, count in session.connection().execute(text(counts))}

    def path(self, operation: Operation) -> str:
        path = operation.path
        for each in operation.about.get("parameters", ()):
            if each["in"] == "path":
                path = path.replace(f"{{{each['name']}}}", self.ids.get(each["name"], "nothing"))
        return path.replace("/v1", "", 1) if path.startswith("/v1") else path

    def caller(self, operation: Operation) -> Actor:
        """Who may do it, so that what is sent is looked at."""
        if operation.path.startswith("/v1/node/"):
            return self.callers["node"]
        needs_admin = operation.path.startswith(ADMINS) or operation.path.endswith(("/grant", "/refuse"))
        return self.callers["admin" if needs_admin else "tenant"]


@pytest.fixture(scope="session")
def world(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all."""
    home = tmp_path_factory.mktemp("values")
    (home / "corral.db").write_bytes(sqlite_template.read_bytes())
    url = f"sqlite:///{home}/corral.db"
    add_key(home / "keys")
    new_signing_key(home / "signing")
    free: dict[str, Any] = {
        f"rate_{kind}": "" for kind in ("reads", "writes", "submissions", "nodes", "failures", "open")
    }
    app = create_app(
        ApiSettings(
            database_url=url, redis_url=NOWHERE, storage_url=f"file://{home}/storage", secrets_key_file=home / "keys",
            signing_key_file=home / "signing",
            **free,
        )
    )  # fmt: skip
    with TestClient(app, raise_server_exceptions=False) as client:
        made = World(client, url)
        yield made
        made.engine.dispose()


def label(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.body is not None], ids=label)
def test_no_value_in_a_body_breaks_the_server(world: World, operation: Operation) -> None:
    caller, path = world.caller(operation), world.path(operation)
    before = world.rows()
    assert operation.body is not None
    for body in bodies(operation.body):
        answer = caller.send(
            operation.method, path, content=body.encode("utf-8"), headers={"Content-Type": "application/json"}
        )
        about = f"{body[:300]} … {answer.text[:300]}"
        assert answer.status_code < 500 or answer.json()["code"] == "unavailable", about
        if answer.is_success:
            before = world.rows()
            continue
        assert answer.headers["content-type"] == "application/problem+json", about
        assert len(answer.content) < 10_000
    assert world.rows() == before
    assert world.client.get("/healthz").status_code == 200


QUERIES = ("-1", "1.5", "1" + "0" * 18, "NaN", "9" * 5000, "", "a\0b", "%ff", "abc\u202edef", "x" * 60_000,
           "9999-12-31T23:59:59Z", "-9999-01-01", "Etc/../../passwd")  # fmt: skip
EVERYWHERE = ("limit", "cursor", "tenant_id", "privileged")
"""Read by the same code for every route, and so given fewer of them."""


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.query], ids=label)
def test_no_value_in_a_query_breaks_the_server(world: World, operation: Operation) -> None:
    caller, path = world.caller(operation), world.path(operation)
    before = world.rows()
    names = [name for name in operation.query if name != "follow"] + ["privileged"]
    for name in names:
        for value in QUERIES[:: 3 if name in EVERYWHERE else 1]:
            escaped = value if value == "%ff" else quote(value, safe="")
            answer = caller.send(operation.method, f"{path}?{name}={escaped}")
            assert answer.status_code < 500, f"{name}={value[:80]!r} {answer.text[:300]}"
        twice = caller.send(operation.method, f"{path}?{name}=1&{name}=2")
        assert twice.status_code < 500, f"{name} twice: {twice.text[:300]}"
    if operation.method == "GET":
        assert world.rows() == before
    assert world.client.get("/healthz").status_code == 200
