"""Every route of the OpenAPI document, with every kind of key that must not open it."""

import time
from typing import Any

import httpx2
import pytest
from actors import Actor, a_job, a_tenant
from sqlalchemy import Engine
from sqlmodel import Session, select

from api.app import create_app
from api.settings import ApiSettings
from store.engine import writing
from store.keys import mint_key
from store.tables import ApiKey, Job

OPEN = {("GET", "/healthz"), ("GET", "/readyz")}
NODE = "/v1/node/"
ADMIN = ("/v1/tenants", "/v1/nodes", "/v1/prices", "/v1/signature-rules")
SOME_ID = "0" * 26
SETTINGS = ApiSettings(database_url="sqlite://", redis_url="unix:///nowhere", storage_url="memory://matrix")


def routes() -> list[tuple[str, str]]:
    """Method and path of every operation in the document."""
    paths = create_app(SETTINGS).openapi()["paths"]
    return sorted((method.upper(), path) for path, operations in paths.items() for method in operations)


ROUTES = [route for route in routes() if route not in OPEN]
CATALOGUE_CHANGES = [route for route in ROUTES if route[1].startswith("/v1/images") and route[0] != "GET"]
ADMIN_ROUTES = CATALOGUE_CHANGES + [route for route in ROUTES if route[1].startswith(ADMIN)]
NODE_ROUTES = [route for route in ROUTES if route[1].startswith(NODE)]
TENANT_ROUTES = [route for route in ROUTES if route not in ADMIN_ROUTES and route not in NODE_ROUTES]


def fill(path: str, **ids: str) -> str:
    """The path with ids in it, below /v1; unknown ones where none are given."""
    values = {
        "job_id": f"job_{SOME_ID}",
        "tenant_id": f"ten_{SOME_ID}",
        "key_id": f"key_{SOME_ID}",
        "node_id": f"nod_{SOME_ID}",
        "attempt_id": f"att_{SOME_ID}",
        "rule_id": f"sig_{SOME_ID}",
        "name": "x",
        "sha256": "sha256:" + "0" * 64,
    } | ids
    return path.removeprefix("/v1").format(**values).replace("{name:path}", values["name"])


def send(actor: Actor, method: str, path: str) -> httpx2.Response:
    body: dict[str, Any] = {"json": {}} if method in ("POST", "PUT") else {}
    return actor.send(method, path, **body)


def refused(answer: httpx2.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


@pytest.fixture
def revoked(tenant: Actor, admin: Actor) -> Actor:
    """A key of the tenant that was revoked."""
    made = tenant.made("/keys", {"name": "gone"})
    assert tenant.send("DELETE", f"/keys/{made['id']}").status_code == 204
    return Actor(tenant.client, made["key"], tenant.tenant_id)


@pytest.fixture
def expired(tenant: Actor) -> Actor:
    """A key of the tenant that has expired."""
    made = tenant.made("/keys", {"name": "old", "expires_at": 1})
    return Actor(tenant.client, made["key"], tenant.tenant_id)


@pytest.fixture
def bad_keys(tenant: Actor, revoked: Actor, expired: Actor) -> list[str]:
    """What opens nothing."""
    mark, prefix, secret = tenant.key.split("_")
    return [
        revoked.key,
        expired.key,
        "",
        "x",
        "corral__",
        f"{mark}_{prefix}_",
        f"{mark}_{prefix}_{'0' * 64}",
        f"{mark}_{prefix}_{secret}0",
        f"{mark}_{prefix}_{secret[:-1]}",
        f"{mark}_{prefix}_{secret.upper()}",
        f"other_{prefix}_{secret}",
        "corraljoin_" + "x" * 43,
        "corralnode_" + "x" * 43,
        "x" * 5000,
    ]


def test_the_matrix_has_every_route() -> None:
    assert len(ROUTES) == len(ADMIN_ROUTES) + len(NODE_ROUTES) + len(TENANT_ROUTES)
    assert min(len(ADMIN_ROUTES), len(NODE_ROUTES), len(TENANT_ROUTES)) > 5


def test_no_key_and_bad_keys_open_nothing(tenant: Actor, bad_keys: list[str]) -> None:
    for method, path in ROUTES:
        anonymous = tenant.client.request(method, "/v1" + fill(path), **({"json": {}} if method != "GET" else {}))
        refused(anonymous, 401, "unauthenticated")
        assert anonymous.headers["www-authenticate"] == "Bearer"
        for key in bad_keys:
            refused(send(Actor(tenant.client, key), method, fill(path)), 401, "unauthenticated")


def test_a_key_elsewhere_than_in_the_header_opens_nothing(tenant: Actor) -> None:
    for options in (
        {"headers": {"Authorization": f"Basic {tenant.key}"}},
        {"headers": {"Authorization": tenant.key}},
        {"headers": {"X-API-Key": tenant.key}},
        {"params": {"key": tenant.key, "access_token": tenant.key}},
        {"cookies": {"Authorization": f"Bearer {tenant.key}"}},
    ):
        if cookies := options.pop("cookies", None):
            options["headers"] = {"Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())}
        assert tenant.client.get("/v1/whoami", **options).status_code == 401  # type: ignore[arg-type]


def test_a_tenant_reaches_no_admin_route(tenant: Actor) -> None:
    for method, path in ADMIN_ROUTES:
        refused(send(tenant, method, fill(path, tenant_id=tenant.tenant_id)), 403, "forbidden")


def test_neither_tenant_nor_admin_reaches_a_node_route(tenant: Actor, admin: Actor) -> None:
    for method, path in NODE_ROUTES:
        for actor in (tenant, admin):
            refused(send(actor, method, fill(path)), 403, "forbidden")


def test_another_tenants_ids_are_not_found_like_ids_of_nobody(tenant: Actor, rival: Actor, engine: Engine) -> None:
    job_id = tenant.made("/jobs", a_job())["id"]
    key_id = tenant.get("/keys").json()["items"][0]["id"]
    for method, path in TENANT_ROUTES:
        if "{" not in path or method == "PUT":  # a name of one's own to give
            continue
        body = {"json": {}} if method == "POST" else {}
        theirs = rival.send(method, fill(path, job_id=job_id, key_id=key_id), **body)
        nobodys = rival.send(method, fill(path), **body)
        assert theirs.status_code == nobodys.status_code == 404, path
        assert theirs.json() == nobodys.json()
    with Session(engine) as session:
        assert session.exec(select(Job.state)).all() == ["queued"]
        assert session.exec(select(ApiKey.revoked_us).where(ApiKey.id == key_id)).one() is None


def test_another_tenants_filter_is_forbidden(tenant: Actor, rival: Actor) -> None:
    for path in ("/jobs", "/usage", "/quota"):
        refused(rival.get(f"{path}?tenant_id={tenant.tenant_id}"), 403, "forbidden")
        assert rival.get(f"{path}?tenant_id={rival.tenant_id}").status_code == 200
    refused(rival.post(f"/jobs?tenant_id={tenant.tenant_id}", a_job()), 403, "forbidden")


def test_lists_show_the_own_tenant_only(tenant: Actor, rival: Actor, admin: Actor) -> None:
    mine, theirs = tenant.made("/jobs", a_job())["id"], rival.made("/jobs", a_job())["id"]
    assert [job["id"] for job in tenant.get("/jobs").json()["items"]] == [mine]
    assert {job["id"] for job in admin.get("/jobs").json()["items"]} == {mine, theirs}
    assert [job["id"] for job in admin.get(f"/jobs?tenant_id={rival.tenant_id}").json()["items"]] == [theirs]
    assert {key["tenant_id"] for key in tenant.get("/keys").json()["items"]} == {tenant.tenant_id}


def test_another_tenants_input_is_unknown(admin: Actor, tenant: Actor, rival: Actor, a_tar: bytes) -> None:
    headers = {"Content-Type": "application/x-tar"}
    sha256 = tenant.post("/inputs", content=a_tar, headers=headers).json()["sha256"]
    assert tenant.post("/jobs", a_job(inputs=[sha256])).status_code == 201
    refused(rival.post("/jobs", a_job(inputs=[sha256])), 422, "invalid")


def test_a_key_is_shown_once_and_kept_as_a_hash(tenant: Actor, engine: Engine) -> None:
    made = tenant.made("/keys", {"name": "new"})
    assert Actor(tenant.client, made["key"]).get("/whoami").json() == {
        "key_id": made["id"],
        "role": "tenant",
        "tenant_id": tenant.tenant_id,
        "tenant_name": "acme",
    }
    secret = made["key"].rpartition("_")[2]
    assert secret not in tenant.get("/keys").text
    with Session(engine) as session:
        assert all(secret not in str(key.model_dump()) for key in session.exec(select(ApiKey)))


def test_a_tenant_mints_no_admin(tenant: Actor, admin: Actor) -> None:
    refused(tenant.post("/keys", {"role": "admin"}), 403, "forbidden")
    refused(admin.post(f"/tenants/{tenant.tenant_id}/keys", {"role": "admin"}), 422, "invalid")
    made = admin.made("/keys", {"role": "admin"})
    assert Actor(admin.client, made["key"]).get("/tenants").status_code == 200


def test_the_last_admin_key_stays(admin: Actor) -> None:
    own = admin.get("/whoami").json()["key_id"]
    refused(admin.send("DELETE", f"/keys/{own}"), 409, "conflict")
    admin.made("/keys", {"role": "admin"})
    assert admin.send("DELETE", f"/keys/{own}").status_code == 204
    assert admin.get("/whoami").status_code == 401


def test_use_is_noted_and_no_more_than_once_a_minute(tenant: Actor, engine: Engine) -> None:
    for _ in range(3):
        tenant.get("/whoami")
    first = tenant.get("/keys").json()["items"][0]["last_used_at"]
    assert first is not None
    tenant.get("/whoami")
    assert tenant.get("/keys").json()["items"][0]["last_used_at"] == first


def test_a_key_works_until_it_expires(tenant: Actor, engine: Engine) -> None:
    later = (time.time_ns() // 1000) + 60_000_000
    made = tenant.made("/keys", {"expires_at": later})
    assert Actor(tenant.client, made["key"]).get("/whoami").status_code == 200


def test_a_childs_key_does_not_reach_its_parent(admin: Actor, tenant: Actor) -> None:
    team = a_tenant(admin, "team", parent_id=tenant.tenant_id)
    job_id = tenant.made("/jobs", a_job())["id"]
    assert team.get(f"/jobs/{job_id}").status_code == 404


def test_a_key_of_the_store_is_a_key_of_the_api(admin: Actor, engine: Engine) -> None:
    with writing(engine) as session:
        _, key = mint_key(session, None, "second")
    assert Actor(admin.client, key).get("/whoami").json()["role"] == "admin"
