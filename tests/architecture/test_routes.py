"""Rules for routes that nobody has to remember."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from corral.contract import Page, View
from fastapi.routing import APIRoute

from api.app import create_app
from api.audit import REPORTS
from api.openapi import CALLERS
from api.settings import ApiSettings
from api.submitting import app_submitter
from api.transactions import _open_reading, _open_writing, audited_writes

SETTINGS = ApiSettings(database_url="sqlite://", redis_url="unix:///nowhere", storage_url="memory://routes")
AUDITED = {_open_writing, audited_writes, app_submitter}
OPEN = {"/healthz", "/readyz", "/docs", "/login", "/login/callback", "/login/token"}


def routes() -> list[APIRoute]:
    """Every route of the application, as it was declared."""
    return list(_below(create_app(SETTINGS).routes))


def _below(found: Any) -> Iterator[APIRoute]:
    for route in found:
        if isinstance(route, APIRoute):
            yield route
        else:
            yield from _below(getattr(getattr(route, "original_router", None), "routes", ()))


def dependencies(dependant: Any) -> Iterator[Any]:
    for inner in dependant.dependencies:
        yield inner
        yield from dependencies(inner)


def is_async(call: Any) -> bool:
    asks = (call, getattr(type(call), "__call__", None))  # noqa: B004 - a library's dependency may be an object
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in asks)


ROUTES = routes()


def test_routes_are_found() -> None:
    assert len(ROUTES) > 45


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{'/'.join(sorted(route.methods))} {route.path}")
class TestEveryRoute:
    def test_declares_its_caller(self, route: APIRoute) -> None:
        callers = CALLERS.keys() & {each.call for each in dependencies(route.dependant)}
        assert bool(callers) != (route.path in OPEN)

    def test_has_one_tag_which_names_its_scope(self, route: APIRoute) -> None:
        assert [re.fullmatch(r"[a-z][a-z-]*", str(tag)) is not None for tag in route.tags] == [True]

    def test_commits_before_its_answer_leaves(self, route: APIRoute) -> None:
        for each in dependencies(route.dependant):
            if each.call in (_open_reading, _open_writing):
                assert each.scope == "function"

    def test_changes_nothing_in_a_reading_transaction(self, route: APIRoute) -> None:
        calls = {each.call for each in dependencies(route.dependant)}
        assert not {_open_reading, _open_writing} <= calls
        assert not (route.methods == {"GET"} and _open_writing in calls)

    def test_holds_no_thread_while_it_streams_and_blocks_no_loop(self, route: APIRoute) -> None:
        """A coroutine takes no session: what it asks of the database, it asks in a thread."""
        if inspect.iscoroutinefunction(route.endpoint):
            calls = {each.call for each in dependencies(route.dependant)}
            assert not {_open_reading, _open_writing} & calls

    def test_notes_its_changes_for_the_audit(self, route: APIRoute) -> None:
        """Whatever writes does so in a transaction that notes it; a node's reports are no changes."""
        calls = {each.call for each in dependencies(route.dependant)}
        is_audited = bool(AUDITED & calls)
        is_report = REPORTS.fullmatch(f"/v1{route.path}") is not None
        is_fine = is_audited or is_report or route.methods == {"GET"} or _open_reading in calls
        assert is_fine, "ask for Writing or Writes; or append the change, and name what does so in AUDITED"

    def test_needs_no_thread_for_a_dependency(self, route: APIRoute) -> None:
        """A dependency that is no coroutine is sent to a thread and back, for each request."""
        for each in dependencies(route.dependant):
            assert is_async(each.call), each.call

    def test_says_what_it_is_for(self, route: APIRoute) -> None:
        assert route.endpoint.__doc__

    def test_answers_with_the_contracts_views(self, route: APIRoute) -> None:
        model = route.response_model
        if route.path in OPEN or model is None or not inspect.isclass(model):
            return
        assert issubclass(model, (View, Page))
