"""Every operation of the OpenAPI document, with every kind of key that must not open it."""

import time
from collections.abc import Mapping

import httpx2
import pytest
from actors import Actor, a_job, a_tenant
from matrix import ALL, CLOSED, INNER, MADE, OF_KEYS, OF_NODES, OPEN, SCOPES, role_below
from sqlalchemy import Engine
from sqlmodel import Session, select

from domain.roles import Role
from store.engine import writing
from store.keys import mint_key
from store.tables import ApiKey, Job


def refused(answer: httpx2.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


def a_key_of(actor: Actor, **spec: object) -> Actor:
    """Somebody with a key that the actor made."""
    return Actor(actor.client, actor.made("/keys", spec)["key"], actor.tenant_id)


@pytest.fixture
def ended(tenant: Actor, admin: Actor, engine: Engine) -> Mapping[str, Actor]:
    """Keys that were good once."""
    revoked = tenant.made("/keys", {"name": "revoked"})
    parent = tenant.made("/keys", {"name": "parent", "role": "member"})
    orphan = Actor(tenant.client, parent["key"]).made("/keys", {"name": "orphan"})
    grandchild = Actor(tenant.client, orphan["key"]).made("/keys", {"name": "grandchild"})
    for key_id in (revoked["id"], parent["id"]):
        assert tenant.send("DELETE", f"/keys/{key_id}").status_code == 204
    short = tenant.made("/keys", {"name": "short", "role": "member"})
    widow = Actor(tenant.client, short["key"]).made("/keys", {"name": "widow"})
    expired = tenant.made("/keys", {"name": "expired", "expires_at": 1})
    with writing(engine) as session:
        held = session.get(ApiKey, short["id"])
        assert held is not None
        held.expires_us = 1
    found = {
        "revoked": revoked, "expired": expired, "of a revoked key": orphan, "of a key of a revoked key": grandchild,
        "of an expired key": widow,
    }  # fmt: skip
    return {name: Actor(tenant.client, made["key"], tenant.tenant_id) for name, made in found.items()}


@pytest.fixture
def bad_keys(tenant: Actor) -> list[str]:
    """What never was a key."""
    mark, prefix, secret = tenant.key.split("_")
    return [
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


def test_the_document_says_of_every_operation_who_may_use_it() -> None:
    assert {(each.method, each.path) for each in ALL if each.role is None} == OPEN
    assert {each.role for each in CLOSED} == {*Role, "node"}
    assert [each for each in OF_KEYS if each.scope is None] == [each for each in OF_KEYS if each.path == "/v1/whoami"]


def test_everything_of_a_tenants_that_a_path_names_can_be_made_by_the_matrix() -> None:
    of_tenants = [each for each in OF_KEYS if each.role != Role.PLATFORM_ADMIN]
    ids = {(name, str(each)) for each in of_tenants for name in each.parameters if name.endswith("_id")}
    missing = sorted(each for name, each in ids if name not in MADE and name not in INNER)
    assert not missing, f"say in tests/matrix.py (MADE) how a tenant comes to have one: {missing}"


def test_no_key_opens_nothing(tenant: Actor) -> None:
    for operation in CLOSED:
        body = {} if operation.method == "GET" else {"json": {}}
        anonymous = tenant.client.request(operation.method, "/v1" + operation.filled(), **body)  # type: ignore[arg-type]
        refused(anonymous, 401, "unauthenticated")
        assert anonymous.headers["www-authenticate"] == "Bearer"


def test_a_key_that_ended_opens_nothing(ended: Mapping[str, Actor]) -> None:
    for operation in CLOSED:
        for actor in ended.values():
            refused(operation.sent_by(actor, tenant_id=actor.tenant_id), 401, "unauthenticated")


def test_what_never_was_a_key_opens_nothing(tenant: Actor, bad_keys: list[str]) -> None:
    for operation in (OF_KEYS[0], OF_NODES[0]):
        for key in bad_keys:
            refused(operation.sent_by(Actor(tenant.client, key)), 401, "unauthenticated")


def test_a_lower_role_opens_nothing(tenant: Actor) -> None:
    actors = {role: a_key_of(tenant, role=role) for role in Role if role is not Role.PLATFORM_ADMIN}
    for operation in OF_KEYS:
        assert operation.role is not None
        below = role_below(operation.role)
        if below is not None:
            answer = operation.sent_by(actors[below], tenant_id=tenant.tenant_id)
            refused(answer, 403, "forbidden")
            assert operation.role in answer.json()["detail"]


def test_a_key_without_the_scope_opens_nothing(tenant: Actor, admin: Actor) -> None:
    for operation in OF_KEYS:
        if operation.scope is not None:
            others = [scope for scope in SCOPES if scope != operation.scope]
            maker = admin if operation.role == Role.PLATFORM_ADMIN else tenant
            answer = operation.sent_by(_with_scopes(maker, others), tenant_id=tenant.tenant_id)
            refused(answer, 403, "scope_missing")
            assert operation.scope in answer.json()["detail"]


_made: dict[tuple[str, ...], Actor] = {}


def _with_scopes(maker: Actor, scopes: list[str]) -> Actor:
    known = (maker.key, *scopes)
    if known not in _made:
        _made[known] = a_key_of(maker, scopes=scopes)
    return _made[known]


def test_no_key_but_a_nodes_reaches_a_nodes_operation(tenant: Actor, admin: Actor) -> None:
    for operation in OF_NODES:
        for actor in (tenant, admin):
            refused(operation.sent_by(actor), 403, "forbidden")


def test_another_tenants_ids_are_answered_like_ids_of_nobody(tenant: Actor, rival: Actor, engine: Engine) -> None:
    theirs = {name: make(tenant) for name, make in MADE.items()}
    for operation in OF_KEYS:
        named = [name for name in operation.parameters if name in MADE]
        if not named or operation.role == Role.PLATFORM_ADMIN:
            continue
        answer, nobodys = operation.sent_by(rival, **theirs), operation.sent_by(rival)
        assert answer.status_code in (404, 422), operation
        assert (answer.status_code, answer.content) == (nobodys.status_code, nobodys.content), operation
    with Session(engine) as session:
        assert set(session.exec(select(Job.state)).all()) == {"queued"}
        assert session.exec(select(ApiKey.revoked_us).where(ApiKey.id == theirs["key_id"])).one() is None


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


def test_another_tenants_filter_is_answered_like_nobodys(tenant: Actor, rival: Actor) -> None:
    nobody = "ten_" + "0" * 26
    for path in ("/jobs", "/usage", "/quota", "/keys"):
        answer, nobodys = rival.get(f"{path}?tenant_id={tenant.tenant_id}"), rival.get(f"{path}?tenant_id={nobody}")
        refused(answer, 404, "not_found")
        assert answer.content == nobodys.content
        assert rival.get(f"{path}?tenant_id={rival.tenant_id}").status_code == 200
    refused(rival.post(f"/jobs?tenant_id={tenant.tenant_id}", a_job()), 404, "not_found")


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
        "parent_key_id": None,
        "member_id": None,
        "member_name": None,
        "scopes": None,
        "images": None,
        "isolation_levels": None,
        "own_jobs_only": False,
        "expires_at": None,
        "totals": [],
        "role": "tenant_admin",
        "tenant_id": tenant.tenant_id,
        "tenant_name": "acme",
    }
    secret = made["key"].rpartition("_")[2]
    assert secret not in tenant.get("/keys").text
    with Session(engine) as session:
        assert all(secret not in str(key.model_dump()) for key in session.exec(select(ApiKey)))


def test_a_tenant_mints_no_admin(tenant: Actor, admin: Actor) -> None:
    refused(tenant.post("/keys", {"role": "platform_admin"}), 403, "beyond_own_rights")
    refused(admin.post(f"/tenants/{tenant.tenant_id}/keys", {"role": "platform_admin"}), 422, "invalid")
    made = admin.made("/keys", {"role": "platform_admin"})
    assert Actor(admin.client, made["key"]).get("/tenants").status_code == 200


def test_the_last_admin_key_stays(admin: Actor) -> None:
    own = admin.get("/whoami").json()["key_id"]
    refused(admin.send("DELETE", f"/keys/{own}"), 409, "conflict")
    admin.made("/keys", {"role": "platform_admin"})
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
    assert Actor(admin.client, key).get("/whoami").json()["role"] == "platform_admin"
