"""Notes for the audit what a request changes, in the transaction of the change. Route authors need do nothing.

Not changes, and so not noted: what was refused, an answer that is given again for its Idempotency-Key, and what a node
reports of itself and its attempts (that stands in the attempts' own events).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from sqlmodel import Session

from domain.ids import TenantId
from store.audit import PLATFORM, Change, append

REPORTS = re.compile(r"/v1/node/(heartbeat|attempts/.*)")
SECRET = re.compile(r"secret|token|passw|credential|private|signature|authorization|^value$|(^|_)key$", re.IGNORECASE)
"""Names of fields whose values are kept out."""
HIDDEN = "[hidden]"
TEXT_MAX = 200
ITEMS_MAX = 20
DEPTH_MAX = 6
CHANGES_MAX = 4000
"""Characters of all changed fields together; beyond that their names are kept alone."""
_MADE, _IS_REPLAY = "audit_made", "audit_is_replay"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who sent a request, as the audit tells it."""

    id: str = ""
    """A key's or node's; empty for nobody known."""
    role: str = "nobody"
    tenant_id: TenantId | None = None
    member_id: str | None = None
    is_staff: bool = False
    """Of the platform: where its requests come from is not for tenants to see."""


def note_change(session: Session, request: Request, body: object = None) -> None:
    """Let the request be written down with what it changed; called when its route has ended well."""
    if not session.info.get(_IS_REPLAY) and not REPORTS.fullmatch(request.url.path):
        append(session, change_of(request, body, session.info.get(_MADE, "")))


def note_made(session: Session, id: str) -> None:
    """Name what the request made, which its path does not."""
    session.info[_MADE] = id


def note_replay(session: Session) -> None:
    """The request changes nothing: it gets the answer that it got before."""
    session.info[_IS_REPLAY] = True


def change_of(request: Request, body: object, made: str = "") -> Change:
    """The request, as a change of what it made or what its path names."""
    actor: Actor = getattr(request.state, "actor", Actor())
    ids = [str(value) for value in request.path_params.values()]
    target = made or (ids[-1] if ids else "")
    return Change(
        chain=_chain(request, actor, target),
        owned=next((id for id in ids if not id.startswith("ten_")), ""),
        is_staff=actor.is_staff,
        actor=actor.id,
        role=actor.role,
        member_id=actor.member_id,
        what=f"{request.method} {request.scope['route'].path}",
        path=_printable(request.url.path),
        target=_printable(target),
        status=request.scope["route"].status_code or 200,
        request_id=request.state.request_id,
        address=request.state.address,
        changes=changed_fields(body),
    )


def changed_fields(body: object) -> str:
    """The fields of a body as a JSON object: bounded, with the values of secrets left out."""
    fields = body if isinstance(body, Mapping) else {}
    text = json.dumps(_shown(fields, 0), separators=(",", ":"))
    if len(text) <= CHANGES_MAX:
        return text
    return json.dumps({str(name)[:TEXT_MAX]: "…" for name in list(fields)[:ITEMS_MAX]}, separators=(",", ":"))


def _chain(request: Request, actor: Actor, target: str) -> str:
    """The tenant that the request says it is about, or the caller's own."""
    said = request.path_params.get("tenant_id") or request.query_params.get("tenant_id")
    return said or (target if target.startswith("ten_") else actor.tenant_id) or PLATFORM


def _shown(value: Any, depth: int) -> Any:
    if depth > DEPTH_MAX:
        return "…"
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else value[:TEXT_MAX] + "…"
    if isinstance(value, Mapping):
        shown = {str(name)[:TEXT_MAX]: _field(str(name), each, depth) for name, each in list(value.items())[:ITEMS_MAX]}
        return shown if len(value) <= ITEMS_MAX else {**shown, "…": len(value) - ITEMS_MAX}
    if isinstance(value, (list, tuple)):
        items = [_shown(each, depth + 1) for each in value[:ITEMS_MAX]]
        return items if len(value) <= ITEMS_MAX else [*items, f"… {len(value) - ITEMS_MAX} more"]
    return value


def _field(name: str, value: Any, depth: int) -> Any:
    if name == "env" and isinstance(value, Mapping):
        return {str(each)[:TEXT_MAX]: HIDDEN for each in list(value)[:ITEMS_MAX]}
    if name == "url" and isinstance(value, str):
        return _shown(value.partition("?")[0], depth)
    if SECRET.search(name) and value is not None:
        return HIDDEN
    return _shown(value, depth + 1)


def _printable(text: str) -> str:
    return json.dumps(text[:TEXT_MAX])[1:-1]
