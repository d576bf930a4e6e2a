"""Every operation of the OpenAPI document: who may use it, and how its path is filled."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2
from actors import Actor, a_job

from api.app import create_app
from api.settings import ApiSettings
from domain.roles import Role

SETTINGS = ApiSettings(database_url="sqlite://", redis_url="unix:///nowhere", storage_url="memory://matrix")
OPEN = {
    ("GET", "/healthz"), ("GET", "/readyz"),
    ("GET", "/v1/login"), ("GET", "/v1/login/callback"), ("POST", "/v1/login/token"),
}  # fmt: skip
"""What needs no key."""
SOME_ID = "0" * 26
UNKNOWN = {"tenant_id": f"ten_{SOME_ID}", "name": "x", "number": "1", "sha256": "sha256:" + "0" * 64}
"""What a parameter of a path is filled with where nothing better is known: well-formed, and of nobody. Ids need no
line: the API looks at their form only."""
MADE: dict[str, Callable[[Actor], str]] = {
    "tenant_id": lambda owner: owner.tenant_id,
    "job_id": lambda owner: str(owner.made("/jobs", a_job())["id"]),
    "array_id": lambda owner: str(owner.made("/jobs", a_job(array={"count": 1}))["array"]["id"]),
    "key_id": lambda owner: str(owner.made("/keys", {"name": "target"})["id"]),
    "request_id": lambda owner: str(
        owner.made("/quota/requests", {"model": "*", "limit": 1, "reason": "more", "until": 2**57})["id"]
    ),
    "webhook_id": lambda owner: str(owner.made("/webhooks", {"url": "https://hooks.example.org/x"})["id"]),
    "member_id": lambda owner: str(owner.made("/members", {"email": "ada@example.org"})["id"]),
}
"""How a tenant comes to have one, for a parameter that names something of a tenant's."""
INNER = {"delivery_id"}
"""What is looked for only inside something that has a maker."""


@dataclass(frozen=True)
class Operation:
    """A method and a path, and what the document says of it."""

    method: str
    path: str
    role: str | None
    """The least role; `node` for a node's; None for what is open."""
    scope: str | None

    @property
    def is_nodes(self) -> bool:
        return self.role == "node"

    @property
    def parameters(self) -> list[str]:
        """What the path is to be filled with."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def filled(self, **known: str) -> str:
        """The path below /v1."""
        values = {**UNKNOWN, **known}
        for name in self.parameters:
            if name.endswith("_id"):
                values.setdefault(name, f"{name[:3]}_{SOME_ID}")
            assert name in values, f"{self}: say in tests/matrix.py what {{{name}}} is filled with (UNKNOWN, MADE)"
        return self.path.removeprefix("/v1").format(**values)

    def sent_by(self, actor: Actor, **known: str) -> httpx2.Response:
        """Its answer to a request with this key and an empty body."""
        body: dict[str, Any] = {} if self.method in ("GET", "DELETE") else {"json": {}}
        return actor.send(self.method, self.filled(**known), **body)


def operations() -> list[Operation]:
    """All of them."""
    paths = create_app(SETTINGS).openapi()["paths"]
    return [
        Operation(method.upper(), path, said.get("x-corral-role"), said.get("x-corral-scope"))
        for path, methods in sorted(paths.items())
        for method, said in sorted(methods.items())
    ]


ALL = operations()
CLOSED = [each for each in ALL if (each.method, each.path) not in OPEN]
OF_NODES = [each for each in CLOSED if each.is_nodes]
OF_KEYS = [each for each in CLOSED if not each.is_nodes]
SCOPES = sorted({each.scope for each in OF_KEYS if each.scope is not None})


def role_below(role: str) -> Role | None:
    """The highest role that is not enough."""
    lower = [each for each in Role if each.rank < Role(role).rank]
    return lower[-1] if lower else None
