"""The document says of every operation who may use it: the least role, and the scope that a key with scopes needs."""

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.auth import SELF, active, admin, find_caller, joining, member, node, scope_of, tenant_admin
from api.shown_key import shown_key
from domain.roles import Role

ROLE, SCOPE = "x-corral-role", "x-corral-scope"
NODE = "node"
CALLERS: dict[object, Role | None] = {
    admin: Role.PLATFORM_ADMIN,
    tenant_admin: Role.TENANT_ADMIN,
    active: Role.MEMBER,
    shown_key: Role.MEMBER,
    member: Role.MEMBER,
    find_caller: Role.VIEWER,
    node: None,
    joining: None,
}
"""The least role of each kind of caller, the highest first; None for a node."""


def say_who(router: APIRouter) -> None:
    """Write it to each of the router's routes, before they are taken into the application."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            route.openapi_extra = {**(route.openapi_extra or {}), **_who(route)}


def scopes_of(routers: Iterable[APIRouter]) -> frozenset[str]:
    """Every scope that a key can be given."""
    said = [route.openapi_extra for router in routers for route in router.routes if isinstance(route, APIRoute)]
    return frozenset(extra[SCOPE] for extra in said if extra is not None and SCOPE in extra)


def _who(route: APIRoute) -> dict[str, Any]:
    """Nothing for a route that is open to all."""
    asked = set(_calls(route.dependant))
    role = next((role or NODE for caller, role in CALLERS.items() if caller in asked), None)
    if role is None:
        return {}
    if role == NODE or route.tags[0] == SELF:
        return {ROLE: str(role)}
    return {ROLE: str(role), SCOPE: scope_of(route, *route.methods or ())}


def _calls(dependant: Dependant) -> Iterator[object]:
    for inner in dependant.dependencies:
        yield inner.call
        yield from _calls(inner)
