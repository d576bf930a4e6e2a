"""A request of the API, and how its answer is read: data, so that every client can send it in its own way."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel

T = TypeVar("T")
V = TypeVar("V", bound=BaseModel)

PREFIX = "/v1"
PAGE_LIMIT = 200
"""Most items that the server puts into one page."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request. Sending the same call again never does anything twice, if `is_repeatable` says so."""

    method: str
    path: str
    read: Callable[[httpx2.Response], T]
    """What the body of a successful answer means."""
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Path = b""
    """A path stands for the file's content, which is streamed."""
    is_repeatable: bool = True
    """Whether it may be sent again where nobody knows if the first one arrived."""

    def at_cursor(self, cursor: str) -> "Call[T]":
        """The same question about the next page."""
        return replace(self, params={**self.params, "cursor": cursor})

    def with_header(self, name: str, value: str) -> "Call[T]":
        """The same request with one header more."""
        return replace(self, headers={**self.headers, name: value})


def place(*segments: str) -> str:
    """A path below the API's prefix; a segment can never climb out of its place.

    Raises:
        ValueError: a segment is empty or made of dots.
    """
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ValueError(f"{segment!r} names nothing")
    return "/".join((PREFIX, *(quote(segment, safe="") for segment in segments)))


def get(path: str, answer: type[V], **params: object) -> Call[V]:
    """Ask for something; parameters that are None are left out."""
    return Call("GET", path, _reader(answer), params=query(params))


def create(path: str, answer: type[V], body: BaseModel, **params: object) -> Call[V]:
    """Make something, once: the key is fixed here, so a call that is sent again makes nothing more."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex}
    return Call("POST", path, _reader(answer), query(params), headers, _sent(body))


def put(path: str, answer: type[V], body: BaseModel, **params: object) -> Call[V]:
    """Set something whole."""
    return Call(
        "PUT", path, _reader(answer), query(params), headers={"Content-Type": "application/json"}, body=_sent(body)
    )


def patch(path: str, answer: type[V], body: BaseModel) -> Call[V]:
    """Set some of it."""
    return Call("PATCH", path, _reader(answer), headers={"Content-Type": "application/json"}, body=_sent(body))


def act(path: str, answer: type[V], *, is_repeatable: bool, body: BaseModel | None = None) -> Call[V]:
    """Tell something what to do, and how if that needs saying."""
    if body is None:
        return Call("POST", path, _reader(answer), is_repeatable=is_repeatable)
    headers = {"Content-Type": "application/json"}
    return Call("POST", path, _reader(answer), headers=headers, body=_sent(body), is_repeatable=is_repeatable)


def delete(path: str, **params: object) -> Call[None]:
    """Do away with something."""
    return Call("DELETE", path, lambda _response: None, query(params))


def query(params: Mapping[str, object]) -> dict[str, str]:
    """What is not None, as text."""
    return {name: str(value) for name, value in params.items() if value is not None}


def _reader(answer: type[V]) -> Callable[[httpx2.Response], V]:
    return lambda response: answer.model_validate_json(response.content)


def _sent(body: BaseModel) -> bytes:
    """Only what was said: the server's defaults are the server's."""
    return body.model_dump_json(exclude_unset=True).encode()
