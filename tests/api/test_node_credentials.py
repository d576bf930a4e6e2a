"""A node's token is renewed without a gap and revoked at once; a token to join with is good once."""

from pathlib import Path

from actors import Actor
from fastapi import FastAPI
from fastapi.testclient import TestClient
from node_actor import a_worker, some_facts
from serving import served

from api.connection import BoundedConnection
from domain.ids import NodeId
from worker import credential
from worker.api_link import ApiLink
from worker.credential import Credential
from worker.renewal import Renewal


def test_a_renewed_token_takes_over_when_it_is_first_used(admin: Actor, client: TestClient) -> None:
    worker = a_worker(admin, client)
    answers = [worker.actor.post("/node/token") for _ in range(3)]
    *lost, renewed = [Actor(client, answer.json()["token"]) for answer in answers]
    assert [each.post("/node/token").status_code for each in lost] == [401, 401]
    assert worker.actor.post("/node/token").status_code == 200  # which replaces the renewed one, not yet used
    assert renewed.post("/node/token").status_code == 401
    renewed = Actor(client, worker.actor.post("/node/token").json()["token"])
    body = {"facts": some_facts()}
    assert renewed.post("/node/register", body).status_code == 200
    assert worker.actor.post("/node/register", body).status_code == 401
    assert admin.get(f"/nodes/{worker.node_id}").json()["token_made_at"] is not None


def test_a_revoked_node_is_heard_no_more_until_it_joins_anew(admin: Actor, client: TestClient) -> None:
    worker = a_worker(admin, client)
    renewed = Actor(client, worker.actor.post("/node/token").json()["token"])
    view = admin.post(f"/nodes/{worker.node_id}/revoke").json()
    assert (view["state"], view["revoked_at"] is None) == ("draining", False)
    assert [each.post("/node/token").status_code for each in (worker.actor, renewed)] == [401, 401]
    assert worker.beat().status_code == 401
    back = a_worker(admin, client)
    assert back.node_id == worker.node_id
    assert back.beat().status_code == 200
    assert admin.get(f"/nodes/{worker.node_id}").json()["revoked_at"] is None
    assert worker.beat().status_code == 401


def test_a_worker_renews_its_token_and_keeps_it_before_it_uses_it(
    app: FastAPI, admin: Actor, client: TestClient, tmp_path: Path
) -> None:
    worker = a_worker(admin, client)
    held = Credential(NodeId(worker.node_id), "node-1", worker.actor.key)
    credential.save(tmp_path, held)
    with served(app, BoundedConnection) as port:
        api = ApiLink(f"http://127.0.0.1:{port}", held.token)
        assert not Renewal(tmp_path, held, api).renew_if_due()
        assert Renewal(tmp_path, held, api, every_s=0).renew_if_due()
        kept = credential.load(tmp_path)
        assert kept is not None
        assert (kept.node_id, kept.token == held.token) == (held.node_id, False)
        assert worker.actor.post("/node/token").status_code == 200  # the old one works until the new one is used
        api.use_token(held.token)
        assert Renewal(tmp_path, kept, api, every_s=0).renew_if_due()
        api.renew_token()
        assert worker.actor.post("/node/token").status_code == 401
        api.close()


def test_a_token_that_cannot_be_renewed_goes_on(tmp_path: Path) -> None:
    held = Credential(NodeId("nod_1"), "node-1", "corralnode_x")
    api = ApiLink("http://127.0.0.1:1", held.token)
    assert not Renewal(tmp_path, held, api, every_s=0).renew_if_due()
    assert credential.load(tmp_path) is None
    api.close()


def test_join_tokens_are_listed_and_taken_back(admin: Actor, client: TestClient) -> None:
    a_worker(admin, client)
    made = admin.made("/nodes/join-token", {"node_name": "node-9"})
    assert _states(admin) == {"node-1": "used", "node-9": "open"}
    assert made["token"] not in admin.get("/join-tokens").text
    assert admin.send("DELETE", f"/join-tokens/{made['id']}").status_code == 204
    assert _states(admin) == {"node-1": "used", "node-9": "revoked"}
    body = {"facts": some_facts("node-9")}
    assert Actor(client, made["token"]).post("/node/register", body).status_code == 401
    used = next(row["id"] for row in admin.get("/join-tokens").json()["items"] if row["state"] == "used")
    assert admin.send("DELETE", f"/join-tokens/{used}").status_code == 409


def _states(admin: Actor) -> dict[str, str]:
    return {row["node_name"]: row["state"] for row in admin.get("/join-tokens").json()["items"]}
