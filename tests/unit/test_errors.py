"""Refusals: each has a stable code of its own, stands in the drawn tree, and tells nothing secret."""

import inspect
import re

import pytest

from domain import errors
from domain.errors import CorralError, InvalidTransition, NotFound, QuotaExceeded, StaleFence
from domain.ids import AttemptId

KINDS: list[type[CorralError]] = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, CorralError)
]


def test_every_code_is_its_own() -> None:
    """A kind that says no code is a case of the kind above it, and answers with that one's."""
    codes = [vars(kind)["code"] for kind in KINDS if "code" in vars(kind)]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("kind", KINDS)
def test_a_code_is_a_stable_word(kind: type[CorralError]) -> None:
    assert re.fullmatch(r"[a-z][a-z_]*", kind.code)
    assert kind is CorralError or kind.code != CorralError.code


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"^[│├└─ ]*([A-Z][A-Za-z]+)(?: {2,}|$)", errors.__doc__ or "", re.MULTILINE)
    assert sorted(drawn) == sorted(kind.__name__ for kind in KINDS)


def test_messages_are_made_from_facts() -> None:
    assert str(NotFound("job")) == "there is no such job"
    assert str(InvalidTransition("job", "failed", "assign")) == "assign does not fit a job that is failed"
    assert str(StaleFence(AttemptId("att_1"), 3)) == "fence 3 no longer counts for att_1"
    assert str(QuotaExceeded("H100", 4, 1)) == "asked for 4 H100, 1 left in the quota"


def test_a_refusal_may_say_what_would_help() -> None:
    assert CorralError("no").help == ""
    assert "another tenant" in NotFound("job").help
