"""The API on one page, for people: made from its OpenAPI document, with no script and nothing from elsewhere."""

import json
import re
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

WHO = {"x-corral-role": "least role", "x-corral-scope": "scope"}
"""What the document says of who may use an operation."""
REFERENCE = re.compile(r"&quot;#/components/schemas/([A-Za-z0-9_.-]+)&quot;")


@router.get("/docs")
def docs(request: Request) -> HTMLResponse:
    """Every operation: what it is for, who may use it, what it takes and answers; then every schema."""
    return HTMLResponse(page(request.app.openapi()))


def page(document: Mapping[str, Any]) -> str:
    """The document as HTML."""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Corral</title><style>{STYLE}</style>"
        f"<h1>Corral {escape(document['info']['version'])}</h1>"
        "<p>Send <code>Authorization: Bearer KEY</code>. "
        "The whole contract: <a href=/openapi.json>openapi.json</a>.</p>"
        f"{''.join(_operations(document))}<h2>schemas</h2>{''.join(_schemas(document))}</html>"
    )


def _operations(document: Mapping[str, Any]) -> Iterator[str]:
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            text = _operation(method.upper(), path, operation)
            by_tag.setdefault(operation.get("tags", ["other"])[0], []).append(text)
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag)}</h2>{''.join(operations)}"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parameters = "".join(
        f"<li><code>{escape(each['name'])}</code> ({escape(each['in'])}) {escape(each.get('description', ''))}</li>"
        for each in operation.get("parameters", ())
    )
    about = escape(operation.get("description") or operation.get("summary", ""))
    who = " ".join(f"{of} <code>{escape(str(operation[key]))}</code>" for key, of in WHO.items() if operation.get(key))
    answers = "".join(
        _schema(f"answers {status}", answer)
        for status, answer in operation.get("responses", {}).items()
        if status.startswith("2")
    )
    return (
        f"<details><summary><b>{method}</b><code>{escape(path)}</code></summary><p>{about}</p><p>{who}</p>"
        f"<ul>{parameters}</ul>{_schema('takes', operation.get('requestBody', {}))}{answers}</details>"
    )


def _schema(what: str, message: Mapping[str, Any]) -> str:
    schema = message.get("content", {}).get("application/json", {}).get("schema")
    return f"<p>{what}</p>{_json(schema)}" if schema else ""


def _schemas(document: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>{_json(schema)}</details>'


def _json(schema: Mapping[str, Any]) -> str:
    """As JSON, where what it only names is a link."""
    text = escape(json.dumps(schema, indent=1))
    return "<pre>" + REFERENCE.sub(r'<a href="#\1">\1</a>', text) + "</pre>"
