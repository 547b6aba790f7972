"""A page to read the document by: one HTML text without scripts, so that it works offline and behind any policy."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: 8px; margin: .6rem 0; padding: .5rem .9rem; }
summary { cursor: pointer; } code, .method { font-family: ui-monospace, monospace; }
.method { display: inline-block; min-width: 4.2rem; font-weight: 700; text-transform: uppercase; }
.get { color: #2a7; } .post { color: #27c; } .delete { color: #c43; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; } td, th { padding: .25rem .6rem; text-align: left;
  vertical-align: top; border-top: 1px solid var(--soft); }
"""


def page(document: dict[str, Any]) -> str:
    """The document as HTML."""
    info = document["info"]
    tags: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append(_operation(document, method, path, operation))
    body = "".join(f"<h2>{escape(tag)}</h2>{''.join(entries)}" for tag, entries in tags.items())
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style>"
        f"<h1>{escape(info['title'])} API</h1><p>{escape(info['description'])} The same as data: "
        f"<a href='openapi.json'><code>openapi.json</code></a>.</p>{body}</html>"
    )


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    head = f"<span class='method {method}'>{method}</span> <code>{escape(path)}</code> {escape(operation['summary'])}"
    rows = [_row(p["name"], p["schema"], p["description"], p["in"]) for p in operation["parameters"]]
    rows += _fields(document, operation)
    table = f"<table><tr><th>Field</th><th>In</th><th>Type</th><th></th></tr>{''.join(rows)}</table>" if rows else ""
    statuses = ", ".join(operation["responses"])
    return f"<details><summary>{head}</summary>{table}<p>Answers: {escape(statuses)}</p></details>"


def _fields(document: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    """The body's fields, one row each."""
    body = operation.get("requestBody")
    if body is None:
        return []
    name = body["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
    schema = document["components"]["schemas"][name]
    required = set(schema.get("required", ()))
    return [
        _row(field, about, "required" if field in required else "", "body")
        for field, about in schema["properties"].items()
    ]


def _row(name: str, schema: dict[str, Any], about: str, place: str) -> str:
    return (
        f"<tr><td><code>{escape(name)}</code></td><td>{place}</td><td><code>{escape(_kind(schema))}</code></td>"
        f"<td>{escape(about)}</td></tr>"
    )


def _kind(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "anyOf" in schema:
        kinds = [_kind(s) for s in schema["anyOf"]]
        return " | ".join(k for k in kinds if k != "null")
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", schema.get("const", "any")))
