"""Who uses the API in tests, over HTTP, and what they send."""

import secrets
from dataclasses import dataclass
from typing import Any

import httpx2
from fastapi.testclient import TestClient


@dataclass(frozen=True)
class Actor:
    """Somebody with a key, who sends requests."""

    client: TestClient
    key: str
    tenant_id: str = ""

    def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """One request under /v1."""
        headers = {"Authorization": f"Bearer {self.key}", **options.pop("headers", {})}
        return self.client.request(method, f"/v1{path}", headers=headers, **options)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        """A GET."""
        return self.send("GET", path, **options)

    def post(self, path: str, json: object = None, **options: Any) -> httpx2.Response:
        """A POST."""
        return self.send("POST", path, **({} if json is None else {"json": json}), **options)

    def made(self, path: str, json: object) -> dict[str, Any]:
        """What a POST created."""
        answer = self.post(path, json)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found


def a_tenant(admin: Actor, name: str, gpus: int = 8, **spec: Any) -> Actor:
    """A new tenant with a key and a quota."""
    tenant_id = admin.made("/tenants", {"name": name, **spec})["id"]
    quota = {"gpus": [{"model": "*", "limit": gpus}], "highest_priority": "high"}
    assert admin.send("PUT", f"/tenants/{tenant_id}/quota", json=quota).status_code == 200
    key = admin.made(f"/tenants/{tenant_id}/keys", {"name": "test"})["key"]
    return Actor(admin.client, key, tenant_id)


def a_job(**changes: Any) -> dict[str, Any]:
    """A small job that is fine as it is."""
    return {"image": "busybox", "command": ["true"], "time_limit": "1m", **changes}


def a_key() -> dict[str, str]:
    """The header of a fresh Idempotency-Key."""
    return {"Idempotency-Key": secrets.token_hex(8)}
