"""Queries are as strict as bodies: a filter that is misspelt would show everything, and of two the last would count."""

from fastapi import Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute

from domain.errors import Invalid


async def known_query(request: Request) -> None:
    """Refuse parameters that the route does not have, and one that is given twice.

    Raises:
        Invalid: there is such a one.
    """
    names = [name for name, _ in request.query_params.multi_items()]
    if not names:
        return
    route: APIRoute = request.scope["route"]
    known = {field.alias for field in get_flat_params(route.dependant) if isinstance(field.field_info, Query)}
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        there_are = ", ".join(sorted(known)) or "none"
        raise Invalid(f"the query has an unknown parameter {unknown}", f"there are: {there_are}")
    if len(set(names)) != len(names):
        raise Invalid("the query has a parameter twice")
