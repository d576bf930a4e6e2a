"""A node's worker, as far as the API sees it: it registers, beats, claims and reports, over HTTP."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from actors import Actor
from builders import a_placement
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from domain.levels import Level
from store.assignments import Assigned, assign, lock_for
from store.engine import writing

BOOT = "boot-1"
GIB = 2**30


@dataclass(frozen=True)
class Worker:
    """A registered worker."""

    actor: Actor
    node_id: str

    def claim(self, assigned: Assigned) -> dict[str, Any]:
        """Take the attempt."""
        answer = self.actor.post(f"/node/attempts/{assigned.attempt_id}/claim", {"fence": assigned.fence})
        assert answer.status_code == 200, answer.text
        order: dict[str, Any] = answer.json()
        return order

    def start(self, assigned: Assigned) -> None:
        """Claim it and open the gate."""
        self.claim(assigned)
        body = {"fence": assigned.fence, "prepare_us": 50_000, "isolation": {"level": "container"}}
        assert self.actor.post(f"/node/attempts/{assigned.attempt_id}/started", body).status_code == 200

    def log(self, assigned: Assigned, offset: int, data: bytes) -> Any:
        """Send a stretch of the log."""
        return self.actor.post(
            f"/node/attempts/{assigned.attempt_id}/logs",
            params={"fence": assigned.fence, "offset": offset},
            content=data,
            headers={"Content-Type": "application/octet-stream"},
        )

    def artifact(self, assigned: Assigned, name: str, data: bytes, sha256: str | None = None) -> Any:
        """Send a file."""
        digest = sha256 or f"sha256:{hashlib.sha256(data).hexdigest()}"
        return self.actor.post(
            f"/node/attempts/{assigned.attempt_id}/artifacts",
            params={"fence": assigned.fence, "name": name, "sha256": digest},
            content=data,
            headers={"Content-Type": "application/octet-stream"},
        )

    def end(self, assigned: Assigned, outcome: str = "exited", exit_code: int | None = 0, **more: Any) -> Any:
        """Say that it is over."""
        body = {"fence": assigned.fence, "outcome": outcome, "exit_code": exit_code, "prepare_us": 50_000,
                "run_us": 2_000_000, "stop_us": 100_000, **more}  # fmt: skip
        return self.actor.post(f"/node/attempts/{assigned.attempt_id}/ended", body)

    def beat(self, held: Sequence[Assigned] = ()) -> Any:
        """A heartbeat."""
        named = [{"attempt_id": each.attempt_id, "fence": each.fence, "is_alive": True} for each in held]
        body = {"boot_id": BOOT, "devices": some_devices(), "held": named}
        return self.actor.post("/node/heartbeat", body)


def a_worker(admin: Actor, client: TestClient, name: str = "node-1") -> Worker:
    """A worker that joined with a one-time token."""
    token = admin.made("/nodes/join-token", {"node_name": name})["token"]
    answer = Actor(client, token).post("/node/register", {"facts": some_facts(name)})
    assert answer.status_code == 200, answer.text
    registered = answer.json()
    return Worker(Actor(client, registered["token"]), registered["node_id"])


def some_facts(name: str = "node-1") -> dict[str, Any]:
    """What a node with two simulated devices says of itself."""
    return {
        "boot_id": BOOT,
        "agent_version": "1",
        "kernel": "6",
        "driver_version": None,
        "cuda_driver": None,
        "cpus_milli": 8000,
        "memory_bytes": 16 * GIB,
        "scratch_bytes": 16 * GIB,
        "levels": [
            {"level": "container", "is_offered": True, "runtime": "runc", "runtime_version": "1"},
            {"level": "kata", "is_offered": False, "runtime": "", "runtime_version": "", "reasons": ["no KVM"]},
        ],
        "devices": some_devices(name),
    }


def some_devices(name: str = "node-1") -> list[dict[str, Any]]:
    """Two clean simulated devices."""
    return [
        {"uuid": f"GPU-{name}-{number}", "model": "Simulated", "memory_bytes": GIB, "is_simulated": True,
         "health": "ok", "is_clean": True, "generation": None}
        for number in range(2)
    ]  # fmt: skip


def place(engine: Engine, worker: Worker, job_id: str) -> Assigned:
    """What the dispatcher would do: give the job its devices on that node."""
    with writing(engine) as session:
        placement = replace(a_placement(session, job_id, worker.node_id), level=Level.CONTAINER)
        lock_for(session, [placement])
        with session.begin_nested():
            return assign(session, placement)
