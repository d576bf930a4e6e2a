"""Secrets over HTTP: set and deleted by their tenant, given to the node of a live attempt, and shown to nobody."""

import base64
import logging
from pathlib import Path

import pytest
from actors import Actor, a_job, a_key
from fastapi.testclient import TestClient
from node_actor import Worker, a_worker, place
from sqlalchemy import Engine, text

from api.app import create_app
from api.settings import ApiSettings
from store.assignments import Assigned
from store.engine import open_engine, writing
from store.keys import mint_key
from store.master_keys import FileKeys, add_key
from store.rewrapping import rewrap_all

VALUE = "correct horse battery staple"


@pytest.fixture
def worker(admin: Actor, client: TestClient) -> Worker:
    """A node that joined."""
    return a_worker(admin, client)


def put(actor: Actor, name: str, value: str = VALUE, **more: str) -> dict[str, object]:
    answer = actor.send("PUT", f"/secrets/{name}", json={"value": value, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def given(worker: Worker, assigned: Assigned) -> dict[str, bytes]:
    answer = worker.actor.post(f"/node/attempts/{assigned.attempt_id}/secrets", {"fence": assigned.fence})
    assert answer.status_code == 200, answer.text
    return {each["name"]: base64.b64decode(each["value"]) for each in answer.json()["secrets"]}


def running(engine: Engine, worker: Worker, tenant: Actor, *names: str) -> tuple[str, Assigned]:
    """A job that names these secrets, claimed by the node."""
    job_id = tenant.made("/jobs", a_job(resources={"gpus": 1, "output": "1MiB"}, secrets=names))["id"]
    assigned = place(engine, worker, job_id)
    assert worker.claim(assigned)["secrets"] == list(names)
    return job_id, assigned


def test_a_secret_is_set_replaced_listed_and_deleted(tenant: Actor) -> None:
    assert put(tenant, "TOKEN")["version"] == 1
    assert put(tenant, "TOKEN", "another value")["version"] == 2
    (shown,) = tenant.get("/secrets").json()["items"]
    assert (shown["name"], shown["version"], shown["size_bytes"], shown["last_used_at"]) == ("TOKEN", 2, 13, None)
    assert tenant.send("DELETE", "/secrets/TOKEN").status_code == 204
    assert tenant.get("/secrets").json()["items"] == []
    assert tenant.send("DELETE", "/secrets/TOKEN").status_code == 404


def test_bytes_are_sent_in_base64(tenant: Actor, worker: Worker, engine: Engine) -> None:
    put(tenant, "KEY", base64.b64encode(b"\x00\xff" * 8).decode(), encoding="base64")
    _, assigned = running(engine, worker, tenant, "KEY")
    assert given(worker, assigned) == {"KEY": b"\x00\xff" * 8}


@pytest.mark.parametrize(
    "body",
    [
        {"value": "short"},
        {"value": "x" * 65_537},
        {"value": "not base64 at all!", "encoding": "base64"},
        {"value": [VALUE]},
        {"value": VALUE, "encoding": "hex"},
        {"token": VALUE},
        {"value": {"text": VALUE}},
    ],
)
def test_a_refusal_shows_nothing_of_the_value(
    tenant: Actor, body: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = tenant.send("PUT", "/secrets/TOKEN", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert VALUE not in answer.text
    value = body.get("value", VALUE)
    assert str(value) not in answer.text
    assert f"'{value}'" not in caplog.text


@pytest.mark.parametrize("name", ["1st", ".hidden", "a/b", "x" * 65, "a b", "..", "ä"])
def test_a_name_is_a_files_name(tenant: Actor, name: str) -> None:
    answer = tenant.client.put(
        f"/v1/secrets/{name}", headers={"Authorization": f"Bearer {tenant.key}"}, json={"value": VALUE}
    )
    assert answer.status_code in (404, 405, 422)
    assert tenant.get("/secrets").json()["items"] == []


def test_no_answer_and_no_row_holds_a_value(tenant: Actor, admin: Actor, engine: Engine) -> None:
    made = tenant.send("PUT", "/secrets/TOKEN", json={"value": VALUE}, headers=a_key())
    shown = [made.text, tenant.get("/secrets").text, admin.get("/secrets").text, tenant.post("/jobs", a_job()).text]
    assert all(VALUE not in each for each in shown)
    with engine.connect() as connection:
        tables = connection.dialect.get_table_names(connection)
        rows = [row for table in tables for row in connection.execute(text(f'SELECT * FROM "{table}"'))]
    kept = b"".join(cell if isinstance(cell, bytes) else str(cell).encode() for row in rows for cell in row)
    for form in (VALUE.encode(), base64.b64encode(VALUE.encode())[:-4]):
        assert form not in kept


def test_tenants_secrets_do_not_meet(tenant: Actor, rival: Actor, admin: Actor) -> None:
    put(tenant, "TOKEN")
    assert rival.get("/secrets").json()["items"] == []
    assert rival.send("DELETE", "/secrets/TOKEN").status_code == 404
    assert rival.post("/jobs", a_job(secrets=["TOKEN"])).json()["code"] == "invalid"
    assert rival.get(f"/secrets?tenant_id={tenant.tenant_id}").status_code == 404
    assert admin.send("PUT", "/secrets/TOKEN", json={"value": VALUE}).status_code == 422
    answer = admin.send("PUT", f"/secrets/TOKEN?tenant_id={rival.tenant_id}", json={"value": "of the rival"})
    assert answer.json()["version"] == 1
    assert [each["tenant_id"] for each in admin.get("/secrets").json()["items"]] == sorted(
        [tenant.tenant_id, rival.tenant_id]
    )


def test_lists_have_pages(tenant: Actor) -> None:
    for name in ("C", "A", "B"):
        put(tenant, name)
    first = tenant.get("/secrets?limit=2").json()
    second = tenant.get("/secrets", params={"limit": 2, "cursor": first["next"]}).json()
    assert [each["name"] for each in [*first["items"], *second["items"]]] == ["A", "B", "C"]
    assert second["next"] is None


def test_a_job_names_secrets_that_are_there_once_each(tenant: Actor) -> None:
    put(tenant, "TOKEN")
    assert tenant.post("/jobs", a_job(secrets=["TOKEN"])).status_code == 201
    missing = tenant.post("/jobs", a_job(secrets=["OTHER"])).json()
    assert "OTHER" in missing["detail"]
    assert tenant.post("/jobs", a_job(secrets=["TOKEN", "TOKEN"])).status_code == 422


def test_a_node_is_given_the_values_of_the_moment_and_each_time_is_recorded(
    tenant: Actor, worker: Worker, engine: Engine
) -> None:
    put(tenant, "TOKEN", "the first value")
    job_id, assigned = running(engine, worker, tenant, "TOKEN")
    assert given(worker, assigned) == {"TOKEN": b"the first value"}
    put(tenant, "TOKEN", "the second value")
    assert given(worker, assigned) == {"TOKEN": b"the second value"}
    events = [each for each in tenant.get(f"/jobs/{job_id}/events").json()["items"] if each["what"] == "secrets_given"]
    assert [each["data"]["versions"] for each in events] == [{"TOKEN": 1}, {"TOKEN": 2}]
    assert tenant.get("/secrets").json()["items"][0]["last_used_at"] is not None


def test_only_the_node_of_a_live_attempt_is_given_them(
    admin: Actor, tenant: Actor, client: TestClient, worker: Worker, engine: Engine
) -> None:
    put(tenant, "TOKEN")
    job_id = tenant.made("/jobs", a_job(resources={"gpus": 1, "output": "1MiB"}, secrets=["TOKEN"]))["id"]
    assigned = place(engine, worker, job_id)
    path = f"/node/attempts/{assigned.attempt_id}/secrets"

    def code(actor: Actor, fence: int = assigned.fence) -> str:
        answer = actor.post(path, {"fence": fence})
        return "given" if answer.status_code == 200 else str(answer.json()["code"])

    other = a_worker(admin, client, "node-2").actor
    assert code(worker.actor) == "stale_fence"  # not claimed yet
    worker.claim(assigned)
    assert [code(worker.actor), code(worker.actor, assigned.fence + 1), code(other)] == [
        "given",
        "stale_fence",
        "not_found",
    ]
    assert worker.end(assigned).status_code == 200
    assert code(worker.actor) == "stale_fence"


def test_a_secret_that_was_deleted_since_is_said_to_be_gone(tenant: Actor, worker: Worker, engine: Engine) -> None:
    put(tenant, "TOKEN")
    _, assigned = running(engine, worker, tenant, "TOKEN")
    assert tenant.send("DELETE", "/secrets/TOKEN").status_code == 204
    answer = worker.actor.post(f"/node/attempts/{assigned.attempt_id}/secrets", {"fence": assigned.fence})
    assert (answer.status_code, answer.json()["code"]) == (409, "secret_gone")


def test_a_row_that_was_put_in_anothers_place_does_not_open(tenant: Actor, worker: Worker, engine: Engine) -> None:
    put(tenant, "A", "value of A")
    put(tenant, "B", "value of B")
    with engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE secret SET wrapped_key=(SELECT wrapped_key FROM secret WHERE name='B'),"
                " ciphertext=(SELECT ciphertext FROM secret WHERE name='B') WHERE name='A'"
            )
        )
    _, assigned = running(engine, worker, tenant, "A")
    answer = worker.actor.post(f"/node/attempts/{assigned.attempt_id}/secrets", {"fence": assigned.fence})
    assert (answer.status_code, answer.json()["code"]) == (409, "cannot_unseal")


def test_master_keys_are_rotated_while_the_server_runs(
    tenant: Actor, worker: Worker, engine: Engine, settings: ApiSettings
) -> None:
    file = settings.secrets_key_file
    assert file is not None
    put(tenant, "TOKEN")
    newest = add_key(file)
    assert rewrap_all(engine, FileKeys(file)) == 1
    assert rewrap_all(engine, FileKeys(file)) == 0
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if line.startswith(newest)))
    _, assigned = running(engine, worker, tenant, "TOKEN")
    assert given(worker, assigned) == {"TOKEN": VALUE.encode()}


def test_without_a_master_key_secrets_are_refused_with_what_to_set(database_url: str, tmp_path: Path) -> None:
    engine = open_engine(database_url)
    with writing(engine) as session:
        _, key = mint_key(session, None, "first")
    engine.dispose()
    settings = ApiSettings(database_url=database_url, redis_url="unix:///nowhere", storage_url=f"file://{tmp_path}/s")
    with TestClient(create_app(settings)) as client:
        admin = Actor(client, key)
        tenant_id = admin.made("/tenants", {"name": "acme"})["id"]
        answer = admin.send("PUT", f"/secrets/TOKEN?tenant_id={tenant_id}", json={"value": VALUE})
    assert (answer.status_code, answer.json()["code"]) == (409, "no_sealing_key")
    assert "CORRAL_SECRETS_KEY_FILE" in answer.json()["help"]
