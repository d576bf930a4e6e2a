"""The API on one page, for people: made from its OpenAPI document, with no script and nothing from elsewhere."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

router = APIRouter(include_in_schema=False, tags=["docs"])

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
summary { cursor: pointer; padding: .2rem 0 } code, pre { font: 13px/1.4 ui-monospace, monospace }
pre { background: #8881; padding: .5rem; overflow-x: auto } b { display: inline-block; min-width: 4.5rem }
"""


@router.get("/docs")
def docs(request: Request) -> HTMLResponse:
    """Every operation: what it is for, what it takes, and what its body looks like."""
    return HTMLResponse(page(request.app.openapi()))


def page(document: Mapping[str, Any]) -> str:
    """The document as HTML."""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Corral</title><style>{STYLE}</style>"
        f"<h1>Corral {escape(document['info']['version'])}</h1>"
        "<p>Send <code>Authorization: Bearer KEY</code>. "
        "The whole contract: <a href=/openapi.json>openapi.json</a>.</p>" + "".join(_operations(document)) + "</html>"
    )


def _operations(document: Mapping[str, Any]) -> Iterator[str]:
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            text = _operation(document, method.upper(), path, operation)
            by_tag.setdefault(operation.get("tags", ["other"])[0], []).append(text)
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag)}</h2>{''.join(operations)}"


def _operation(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> str:
    parameters = "".join(
        f"<li><code>{escape(each['name'])}</code> ({escape(each['in'])}) {escape(each.get('description', ''))}</li>"
        for each in operation.get("parameters", ())
    )
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    body = "" if schema is None else f"<pre>{escape(json.dumps(_shown(document, schema), indent=1))}</pre>"
    about = escape(operation.get("description") or operation.get("summary", ""))
    return (
        f"<details><summary><b>{method}</b><code>{escape(path)}</code></summary>"
        f"<p>{about}</p><ul>{parameters}</ul>{body}</details>"
    )


def _shown(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """The schema that is meant, where it only names one."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema
