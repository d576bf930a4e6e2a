"""The catalogue over HTTP: what an admin admits, what a node finds, who may use it, and what is blocked."""

from typing import Any

import pytest
from actors import Actor, a_job, a_tenant
from fastapi.testclient import TestClient
from node_actor import BOOT, Worker, a_worker, place, some_devices, some_facts
from sqlalchemy import Engine

from store.assignments import PlacementRefused
from store.barred_images import barred_images
from store.engine import reading

DIGEST = "sha256:" + "b" * 64
REFERENCE = f"registry.example/team/train@{DIGEST}"
KEY = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"


@pytest.fixture
def worker(admin: Actor, client: TestClient) -> Worker:
    """A node with containers."""
    return a_worker(admin, client)


@pytest.fixture
def train(admin: Actor, tenant: Actor) -> str:
    """An image of a registry's."""
    admin.made("/images", {"name": "train", "reference": REFERENCE})
    return "train"


def tasks(worker: Worker, **more: Any) -> list[dict[str, Any]]:
    """What a heartbeat's answer asks for, but for the image that every test has."""
    answer = worker.actor.post("/node/heartbeat", {"boot_id": BOOT, "devices": some_devices(), "held": [], **more})
    assert answer.status_code == 200, answer.text
    return [task for task in answer.json()["images"] if task["reference"] == REFERENCE]


def found(worker: Worker, **more: Any) -> int:
    """What the API says to findings."""
    return int(worker.actor.post("/node/images/findings", {"reference": REFERENCE, **more}).status_code)


def state(actor: Actor, name: str = "train") -> str:
    return str(actor.get(f"/images/{name}").json()["state"])


def test_a_node_looks_at_a_new_image_and_the_catalogue_shows_what_it_found(
    admin: Actor, tenant: Actor, worker: Worker, train: str
) -> None:
    assert state(tenant) == "checking"
    assert tasks(worker) == [{"reference": REFERENCE, "is_to_check": True, "signature": None}]
    assert tasks(worker) == []  # one that was asked has its time
    user = {"name": "USER", "found": "root", "instead": "the job's own user"}
    assert found(worker, findings=[user], cuda="12.8", size_bytes=5) == 204
    shown = tenant.get("/images/train").json()
    assert (shown["state"], shown["min_cuda"], shown["check"]["findings"]) == ("admitted", "12.8", [user])
    assert shown["hosts"] == {
        "able": 0, "known": 1, "reasons": ["1 node: no NVIDIA driver"], "least_driver": "570.26",
    }  # fmt: skip


def test_what_the_gate_refuses_takes_no_jobs_and_says_why(tenant: Actor, worker: Worker, train: str) -> None:
    job_id = tenant.made("/jobs", a_job(image=train))["id"]
    tasks(worker)
    assert found(worker, refusals=["its environment sets LD_PRELOAD: build it without"]) == 204
    answer = tenant.post("/jobs", a_job(image=train))
    assert answer.status_code == 422
    assert "LD_PRELOAD" in answer.json()["detail"]
    assert state(tenant) == "refused"
    assert tenant.get(f"/jobs/{job_id}").json()["state"] == "queued"


def test_only_the_node_that_was_asked_is_believed(
    admin: Actor, tenant: Actor, client: TestClient, worker: Worker, train: str
) -> None:
    assert found(worker, refusals=["it is ugly"]) == 409
    other = Actor(client, a_worker(admin, client, "node-2").actor.key)
    tasks(worker)
    assert other.post("/node/images/findings", {"reference": REFERENCE, "refusals": ["x"]}).status_code == 409
    assert found(worker) == 204
    assert found(worker, refusals=["on second thoughts"]) == 409
    assert state(tenant) == "admitted"


def test_a_node_in_trouble_is_followed_by_another(
    admin: Actor, tenant: Actor, client: TestClient, worker: Worker, train: str
) -> None:
    tasks(worker)
    assert found(worker, trouble="the registry is away") == 204
    shown = tenant.get("/images/train").json()
    assert (shown["state"], shown["reason"]) == ("checking", "the registry is away")
    assert tasks(worker) == []
    second = a_worker(admin, client, "node-2")
    body = {"boot_id": BOOT, "devices": some_devices("node-2"), "held": []}
    assert REFERENCE in [task["reference"] for task in second.actor.post("/node/heartbeat", body).json()["images"]]


def test_a_node_without_containers_is_asked_for_nothing(admin: Actor, worker: Worker, train: str) -> None:
    facts = some_facts() | {"levels": [{"level": "process", "is_offered": True, "runtime": "", "runtime_version": ""}]}
    assert worker.actor.post("/node/register", {"facts": facts}).status_code == 200
    assert tasks(worker) == []


def test_an_image_is_for_those_it_is_kept_for_and_all_below_them(admin: Actor, tenant: Actor, rival: Actor) -> None:
    team = a_tenant(admin, "acme-vision", parent_id=tenant.tenant_id)
    admin.made("/images", {"name": "train", "reference": REFERENCE, "tenants": [tenant.tenant_id]})
    for mine in (tenant, team):
        assert "train" in [image["name"] for image in mine.get("/images").json()["items"]]
        assert mine.get("/images/train").json()["tenants"] is None
        assert mine.post("/jobs", a_job(image="train")).status_code == 201
    assert admin.get("/images/train").json()["tenants"] == [tenant.tenant_id]
    assert [image["name"] for image in rival.get("/images").json()["items"]] == ["busybox"]
    for path in ("/images/train", "/images/nobodys"):
        assert rival.get(path).status_code == 404
    theirs = rival.post("/jobs", a_job(image="train")).json()
    nobodys = rival.post("/jobs", a_job(image="nobodys")).json()
    assert theirs["detail"].replace("train", "nobodys") == nobodys["detail"]
    assert {**theirs, "detail": ""} == {**nobodys, "detail": ""}
    assert admin.send("PUT", "/images/train/tenants", json={"tenants": None}).json()["tenants"] is None
    assert rival.post("/jobs", a_job(image="train")).status_code == 201
    assert admin.send("PUT", "/images/train/tenants", json={"tenants": []}).json()["tenants"] == []
    assert tenant.get("/images/train").status_code == 404


def test_a_blocked_digest_starts_under_no_name(
    admin: Actor, tenant: Actor, worker: Worker, train: str, engine: Engine
) -> None:
    admin.made("/images", {"name": "mirrored", "reference": f"mirror.example/train@{DIGEST}"})
    job_id = tenant.made("/jobs", a_job(image="mirrored", resources={"gpus": 1, "output": "1MiB"}))["id"]
    assert admin.post("/images/train/block", {"reason": "CVE-2026-1"}).json()["state"] == "blocked"
    assert state(tenant, "mirrored") == "blocked"
    for name in (train, "mirrored"):
        answer = tenant.post("/jobs", a_job(image=name))
        assert (answer.status_code, answer.json()["detail"]) == (422, f"image {name} is blocked: CVE-2026-1")
    again = admin.post("/images", {"name": "renamed", "reference": f"third.example/x@{DIGEST}"})
    assert again.status_code == 422
    with pytest.raises(PlacementRefused, match="blocked"):
        place(engine, worker, job_id)
    with reading(engine) as session:
        assert barred_images(session)[DIGEST].code == "image_blocked"
    assert admin.post("/images/mirrored/unblock").json()["state"] == "checking"
    place(engine, worker, job_id)


def test_a_block_takes_back_what_no_node_has_taken_and_leaves_what_runs(
    admin: Actor, tenant: Actor, worker: Worker, train: str, engine: Engine
) -> None:
    spec = a_job(image=train, resources={"gpus": 1, "output": "1MiB"})
    running, assigned = (tenant.made("/jobs", spec)["id"] for _ in range(2))
    first = place(engine, worker, running)
    worker.start(first)
    second = place(engine, worker, assigned)
    admin.post("/images/train/block", {"reason": "bad"})
    assert [tenant.get(f"/jobs/{each}").json()["state"] for each in (running, assigned)] == ["running", "queued"]
    claim = worker.actor.post(f"/node/attempts/{second.attempt_id}/claim", {"fence": second.fence})
    assert claim.status_code == 409
    admin.post("/images/train/block", {"reason": "worse", "stop": True})
    [verdict] = worker.beat([first]).json()["verdicts"]
    assert (verdict["verdict"], verdict["reason"]) == ("stop", "preempted")


def test_a_node_that_takes_an_attempt_is_told_of_a_block_that_came_in_between(
    admin: Actor, tenant: Actor, worker: Worker, train: str, engine: Engine
) -> None:
    job_id = tenant.made("/jobs", a_job(image=train, resources={"gpus": 1, "output": "1MiB"}))["id"]
    assigned = place(engine, worker, job_id)
    with engine.begin() as connection:  # as a block whose transaction did not see the assignment
        connection.exec_driver_sql(f"INSERT INTO image_block VALUES ('{DIGEST}', 'late', 1)")
    answer = worker.actor.post(f"/node/attempts/{assigned.attempt_id}/claim", {"fence": assigned.fence})
    assert (answer.status_code, answer.json()["code"]) == (409, "image_blocked")


def test_a_signature_that_a_rule_asks_for_is_waited_for(
    admin: Actor, tenant: Actor, worker: Worker, train: str, engine: Engine
) -> None:
    tasks(worker)
    assert found(worker) == 204
    rule = admin.made("/signature-rules", {"pattern": "registry.example/team/*", "key_pem": KEY})
    with reading(engine) as session:
        assert barred_images(session)[REFERENCE].code == "image_unchecked"
    [task] = tasks(worker)
    assert (task["is_to_check"], task["signature"]["rule_id"]) == (True, rule["id"])
    assert found(worker, signed_by="the key") == 204
    assert tenant.get("/images/train").json()["check"]["signed_by"] == "the key"
    with reading(engine) as session:
        assert barred_images(session) == {}
    job_id = tenant.made("/jobs", a_job(image=train, resources={"gpus": 1, "output": "1MiB"}))["id"]
    assert worker.claim(place(engine, worker, job_id))["signature"]["key_pem"] == KEY
    assert admin.send("DELETE", f"/signature-rules/{rule['id']}").status_code == 204
    [task] = tasks(worker)
    assert task["signature"] is None


@pytest.mark.parametrize(
    "rule",
    [
        {"pattern": "*"},
        {"pattern": "*", "key_pem": KEY, "identity": "a", "issuer": "b"},
        {"pattern": "*", "identity": "a"},
        {"pattern": "UPPER/*", "key_pem": KEY},
        {"pattern": "*", "key_pem": "file:///etc/shadow"},
        {"pattern": "*", "key_pem": "-----BEGIN PRIVATE KEY-----\nA\n-----END PRIVATE KEY-----\n"},
    ],
)
def test_a_rule_that_says_too_little_or_too_much_is_refused(admin: Actor, rule: dict[str, Any]) -> None:
    assert admin.post("/signature-rules", rule).status_code == 422
    assert admin.get("/signature-rules").json()["items"] == []


@pytest.mark.parametrize("tenants", [["ten_" + "0" * 26], ["acme"], "everybody", [1]])
def test_tenants_that_are_none_are_refused(admin: Actor, train: str, tenants: object) -> None:
    assert admin.send("PUT", "/images/train/tenants", json={"tenants": tenants}).status_code == 422
    assert admin.get("/images/train").json()["tenants"] is None


def test_a_pull_is_shown_on_the_job_and_on_its_node(
    admin: Actor, tenant: Actor, worker: Worker, train: str, engine: Engine
) -> None:
    job_id = tenant.made("/jobs", a_job(image=train, resources={"gpus": 1, "output": "1MiB"}))["id"]
    assigned = place(engine, worker, job_id)
    worker.claim(assigned)
    before = len(tenant.get(f"/jobs/{job_id}/events").json()["items"])
    pull = {"layers_done": 1, "layers": 3, "bytes_done": 2**20, "bytes_total": 2**30}
    report = {"fence": assigned.fence, "text": "", "pull": pull}
    assert worker.actor.post(f"/node/attempts/{assigned.attempt_id}/progress", report).status_code == 200
    assert tenant.get(f"/jobs/{job_id}").json()["attempt"]["pull"] == pull
    assert len(tenant.get(f"/jobs/{job_id}/events").json()["items"]) == before
    tasks(worker, images=[{"reference": REFERENCE, "pull": pull}])
    [shown] = admin.get(f"/nodes/{worker.node_id}").json()["images"]
    assert (shown["reference"], shown["pull"]) == (REFERENCE, pull)
    started = {"fence": assigned.fence, "prepare_us": 1, "isolation": {}}
    worker.actor.post(f"/node/attempts/{assigned.attempt_id}/started", started)
    assert tenant.get(f"/jobs/{job_id}").json()["attempt"]["pull"] is None
