"""What a worker may say, and what comes of it."""

import pytest
from actors import Actor, a_job
from fastapi.testclient import TestClient
from node_actor import BOOT, Worker, a_worker, place, some_devices, some_facts
from sqlalchemy import Engine

from store.assignments import Assigned


@pytest.fixture
def worker(admin: Actor, client: TestClient) -> Worker:
    """A node that joined."""
    return a_worker(admin, client)


@pytest.fixture
def job_id(tenant: Actor) -> str:
    """A job that waits for a GPU."""
    made: str = tenant.made("/jobs", a_job(resources={"gpus": 1, "output": "1MiB"}, env={"A": "1"}))["id"]
    return made


@pytest.fixture
def assigned(engine: Engine, worker: Worker, job_id: str) -> Assigned:
    """It, assigned to the node."""
    return place(engine, worker, job_id)


def test_a_node_joins_once_with_its_token(admin: Actor, client: TestClient) -> None:
    token = admin.made("/nodes/join-token", {"node_name": "node-1"})["token"]
    joining = Actor(client, token)
    registered = joining.post("/node/register", {"facts": some_facts()}).json()
    assert (registered["node_name"], registered["heartbeat_seconds"]) == ("node-1", 10)
    assert joining.post("/node/register", {"facts": some_facts()}).status_code == 401
    own = Actor(client, registered["token"]).post("/node/register", {"facts": some_facts()}).json()
    assert (own["node_id"], own["token"]) == (registered["node_id"], None)
    shown = admin.get(f"/nodes/{registered['node_id']}").json()
    assert (shown["state"], shown["levels"], len(shown["gpus"])) == ("ready", ["container"], 2)
    assert shown["level_reasons"]["kata"] == ["no KVM"]
    assert [node["id"] for node in admin.get("/nodes").json()["items"]] == [registered["node_id"]]


def test_devices_can_be_asked_for(worker: Worker, tenant: Actor) -> None:
    kind = {"model": "Simulated", "memory_bytes": 2**30, "is_simulated": True, "total": 2, "free": 2, "usable": 2}
    assert tenant.get("/gpus").json()["items"] == [kind]


def test_the_whole_life_of_an_attempt(worker: Worker, tenant: Actor, job_id: str, assigned: Assigned) -> None:
    order = worker.claim(assigned)
    assert (order["command"], order["env"], len(order["devices"])) == (["true"], {"A": "1"}, 1)
    assert order["devices"][0]["is_simulated"] is True
    assert worker.claim(assigned) == order
    assert tenant.get("/gpus").json()["items"][0]["free"] == 1
    worker.start(assigned)
    progress = {"fence": assigned.fence, "text": "halfway"}
    assert worker.actor.post(f"/node/attempts/{assigned.attempt_id}/progress", progress).json()["state"] == "running"
    shown = tenant.get(f"/jobs/{job_id}").json()
    assert (shown["state"], shown["reason"], shown["attempt"]["state"]) == ("running", None, "running")
    assert shown["attempt"]["isolation"] == {"level": "container"}
    assert worker.log(assigned, 0, b"hello\n").json() == {"size_bytes": 6}
    assert worker.artifact(assigned, "result.txt", b"42").status_code == 200
    skipped = [{"name": "link", "reason": "a symbolic link"}]
    assert worker.end(assigned, skipped=skipped).json()["state"] == "ended"
    assert worker.end(assigned, skipped=skipped).status_code == 200  # told twice
    shown = tenant.get(f"/jobs/{job_id}").json()
    assert (shown["state"], shown["outcome"], shown["exit_code"]) == ("succeeded", "exited", 0)
    assert shown["attempt"]["skipped"] == skipped
    assert tenant.get(f"/jobs/{job_id}/attempts").json()["items"] == [shown["attempt"]]
    entries = tenant.get(f"/jobs/{job_id}/ledger").json()["items"]
    assert {entry["cause"] for entry in entries} == {"preparing", "running", "stopping"}
    assert [event["what"] for event in tenant.get(f"/jobs/{job_id}/events").json()["items"]][-1].startswith("job_")


def test_a_stale_fence_writes_nothing(worker: Worker, tenant: Actor, job_id: str, assigned: Assigned) -> None:
    worker.start(assigned)
    old = Assigned(assigned.attempt_id, assigned.fence + 1, worker.node_id)
    for answer in (
        worker.actor.post(f"/node/attempts/{old.attempt_id}/claim", {"fence": old.fence}),
        worker.log(old, 0, b"x"),
        worker.artifact(old, "x", b"x"),
        worker.end(old),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "stale_fence")
    worker.end(assigned)
    for answer in (worker.log(assigned, 0, b"x"), worker.artifact(assigned, "x", b"x")):
        assert (answer.status_code, answer.json()["code"]) == (409, "stale_fence")
    assert tenant.get(f"/jobs/{job_id}/logs").content == b""
    assert tenant.get(f"/jobs/{job_id}/artifacts").json()["items"] == []


@pytest.mark.parametrize("number", [-1, 2**63, 10**30, True, "1", 1.0])
def test_numbers_that_no_column_holds_are_refused(worker: Worker, assigned: Assigned, number: object) -> None:
    at, fence = f"/node/attempts/{assigned.attempt_id}", assigned.fence
    ended = {"fence": fence, "outcome": "exited", "exit_code": 0, "prepare_us": 1, "run_us": 1, "stop_us": 1}
    sandbox = {"attempt_id": assigned.attempt_id, "fence": number, "is_alive": True}
    for path, body in (
        (f"{at}/claim", {"fence": number}),
        (f"{at}/progress", {"fence": number, "text": "x"}),
        (f"{at}/started", {"fence": fence, "prepare_us": number, "isolation": {}}),
        (f"{at}/ended", {**ended, "run_us": number}),
        ("/node/heartbeat", {"boot_id": BOOT, "devices": [], "held": [sandbox]}),
    ):
        assert worker.actor.post(path, body).status_code == 422, path


def test_another_nodes_attempt_is_unknown(admin: Actor, client: TestClient, worker: Worker, assigned: Assigned) -> None:
    other = a_worker(admin, client, "node-2")
    for answer in (
        other.actor.post(f"/node/attempts/{assigned.attempt_id}/claim", {"fence": assigned.fence}),
        other.log(assigned, 0, b"x"),
        other.artifact(assigned, "x", b"x"),
        other.end(assigned),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_heartbeat_brings_verdicts_and_what_is_assigned(
    worker: Worker, tenant: Actor, job_id: str, assigned: Assigned
) -> None:
    answer = worker.beat().json()
    assert answer["assigned"] == [{"attempt_id": assigned.attempt_id, "fence": assigned.fence}]
    assert answer["verdicts"] == []
    worker.start(assigned)
    assert [each["verdict"] for each in worker.beat([assigned]).json()["verdicts"]] == ["keep"]
    tenant.post(f"/jobs/{job_id}/cancel")
    verdict = worker.beat([assigned]).json()["verdicts"][0]
    assert (verdict["verdict"], verdict["reason"]) == ("stop", "cancelled")
    worker.end(assigned, "cancelled", None)
    assert tenant.get(f"/jobs/{job_id}").json()["state"] == "cancelled"
    assert [each["verdict"] for each in worker.beat([assigned]).json()["verdicts"]] == ["remove"]


def test_a_node_takes_no_device_that_another_still_shows(admin: Actor, client: TestClient, worker: Worker) -> None:
    """A node that was broken into yields its own jobs and no more."""
    thief = a_worker(admin, client, "node-2")
    wanted = [{**each, "is_simulated": False} for each in some_devices("node-1")]
    body = {"boot_id": BOOT, "devices": [*wanted, *wanted], "held": []}

    def held_by(node_id: str) -> dict[str, str]:
        return {gpu["uuid"]: gpu["state"] for gpu in admin.get(f"/nodes/{node_id}").json()["gpus"]}

    assert thief.actor.post("/node/heartbeat", body).status_code == 200
    assert held_by(worker.node_id) == {"GPU-node-1-0": "clean", "GPU-node-1-1": "clean"}
    admin.post(f"/nodes/{worker.node_id}/lost")
    assert thief.actor.post("/node/heartbeat", body).status_code == 200
    assert held_by(worker.node_id) == {}
    assert held_by(thief.node_id)["GPU-node-1-0"] == "dirty"


@pytest.mark.parametrize("field", ["boot_id", "agent_version", "kernel", "driver_version", "cuda_driver"])
@pytest.mark.parametrize("text", ["\x1b[2J", "\u202e", "x" * 10_000])
def test_what_a_node_says_of_itself_is_fit_for_an_admins_terminal(worker: Worker, field: str, text: str) -> None:
    facts = {**some_facts(), field: text}
    assert worker.actor.post("/node/register", {"facts": facts}).status_code == 422


def test_an_admin_drains_resumes_and_declares_lost(
    admin: Actor, worker: Worker, tenant: Actor, job_id: str, assigned: Assigned
) -> None:
    path = f"/nodes/{worker.node_id}"
    assert admin.post(f"{path}/drain").json()["state"] == "draining"
    assert admin.post(f"{path}/resume").json()["state"] == "ready"
    assert admin.post(f"{path}/lost").json()["state"] == "lost"
    shown = tenant.get(f"/jobs/{job_id}").json()
    assert (shown["state"], shown["attempt"]["outcome"]) == ("queued", "node_lost")


def test_usage_adds_up(worker: Worker, admin: Actor, tenant: Actor, rival: Actor, job_id: str, engine: Engine) -> None:
    assert admin.send("PUT", "/prices", json={"model": "*", "micro_per_gpu_hour": 3_600_000_000}).status_code == 200
    assigned = place(engine, worker, job_id)
    worker.start(assigned)
    worker.end(assigned)
    entries = tenant.get(f"/jobs/{job_id}/ledger").json()["items"]
    total = sum(entry["duration_us"] * entry["share_milli"] for entry in entries)
    for group_by in ("", "day", "tenant,model,job,day,cause"):
        usage = tenant.get(f"/usage?group_by={group_by}").json()
        assert usage["total_gpu_us_milli"] == total
        assert sum(row["gpu_us_milli"] for row in usage["rows"]) == total
        assert usage["total_cost_micro"] == sum(entry["cost_micro"] for entry in entries) > 0
    middle = (entries[0]["from_us"] + entries[-1]["until_us"]) // 2
    parts = [tenant.get(f"/usage?{bound}={middle}").json()["total_gpu_us_milli"] for bound in ("since", "until")]
    assert sum(parts) == total
    assert 0 < parts[0] < total
    assert rival.get("/usage").json()["rows"] == []
    assert admin.get("/usage?group_by=tenant").json()["rows"][0]["tenant_id"] == tenant.tenant_id
    assert admin.get(f"/tenants/{tenant.tenant_id}/ledger/verify").json()["items"][0]["is_sound"] is True
    assert tenant.get("/usage?group_by=day,day").status_code == 422
    assert tenant.get("/usage?group_by=weekday").status_code == 422


def test_usage_is_cut_at_midnight_and_nothing_is_lost(
    tenant: Actor, worker: Worker, job_id: str, engine: Engine
) -> None:
    assigned = place(engine, worker, job_id)
    worker.start(assigned)
    worker.end(assigned, run_us=3 * 86_400 * 10**6 + 1)
    rows = tenant.get("/usage?group_by=day").json()["rows"]
    assert len(rows) in (4, 5)
    entries = tenant.get(f"/jobs/{job_id}/ledger").json()["items"]
    assert sum(row["gpu_us_milli"] for row in rows) == sum(each["duration_us"] * 1000 for each in entries)
    assert rows[1]["gpu_us_milli"] == 86_400 * 10**9
    assert rows[1]["gpu_hours"] == "24"
