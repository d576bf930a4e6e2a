"""Options and arguments that many commands share, and how their text is read."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

import typer
from corral.client import Client
from corral.errors import CorralError
from pydantic import ValidationError
from pydantic_core import ErrorDetails

T = TypeVar("T")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and only JSON, on standard output.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
TenantRef = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's id or name.")]
NodeRef = Annotated[str, typer.Argument(metavar="NODE", help="The node's id or name.")]
OfTenant = Annotated[
    str | None,
    typer.Option("--tenant", help="Of this tenant, by its id or name: one below the own, or, for an admin, any."),
]


PATIENCE_SECONDS = 5.0
"""A person sits before the terminal: an address that is wrong should show soon."""


PATTERN = "string_pattern_mismatch"
NAME_RULE = "lower-case letters, digits and, inside, dots, underscores and dashes; at most 63"
MEANINGS = {
    "reference": "REPOSITORY@sha256:…, an image's id in the engine (sha256:…), or host; no tag, since a tag can move",
    "name": NAME_RULE,
    "node_name": NAME_RULE,
    "image": NAME_RULE,
}
"""What a pattern means, for the fields that people write by hand."""


class NoSuchName(CorralError):
    code = "not_found"


def connect() -> Client:
    """A client of the configured server."""
    return Client(patience_seconds=PATIENCE_SECONDS)


def pairs(texts: Iterable[str], what: str) -> dict[str, str]:
    """What was written as NAME=VALUE."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r} is not written as {what}")
        found[name] = value
    return found


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with what `over` says, down into objects; None and empty say nothing."""
    found = dict(base)
    for name, value in over.items():
        if isinstance(value, dict):
            inner = found.get(name)
            value = merged(inner if isinstance(inner, dict) else {}, value)
        if value is None or value == [] or value == {}:
            continue
        found[name] = value
    return found


def read(parse: Callable[[], T]) -> T:
    """What `parse` makes of the options; what it refuses is a mistake in their use."""
    try:
        return parse()
    except ValidationError as error:
        raise typer.BadParameter("; ".join(map(_why, error.errors()))) from error
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def tenant_id(client: Client, ref: str) -> str:
    """The id of the tenant that is meant by its id or its name."""
    return ref if ref.startswith("ten_") else _named(ref, "tenant", ((t.name, t.id) for t in client.tenants()))


def maybe_tenant_id(client: Client, ref: str | None) -> str | None:
    """The same, where no tenant need be named."""
    return None if ref is None else tenant_id(client, ref)


def node_id(client: Client, ref: str) -> str:
    """The id of the node that is meant by its id or its name."""
    known = ((name, node.id) for node in client.nodes() for name in (node.name, node.id))
    return _named(ref, "node", known)


def _why(said: ErrorDetails) -> str:
    """Where a value was refused and why, in words where the rule itself would be a pattern or a type's name."""
    place = ".".join(str(part) for part in said["loc"])
    if said["type"] == "missing":
        return f"{place} is missing"
    meant = MEANINGS.get(place) if said["type"] == PATTERN else None
    return f"{place}: {meant or said['msg']}"


def _named(ref: str, kind: str, known: Iterable[tuple[str, str]]) -> str:
    for name, found in known:
        if name == ref:
            return found
    raise NoSuchName(f"there is no {kind} {ref!r}", f"see: corral admin {kind}s list")
