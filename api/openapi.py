"""The document says of every operation who may use it: the least role, and the scope that a key with scopes needs."""

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.auth import CALLERS, SELF, scope_of

ROLE, SCOPE = "x-corral-role", "x-corral-scope"
NODE = "node"


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
