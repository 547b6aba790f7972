"""A page to read the document by: one HTML text without scripts, so that it works offline and behind any policy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

_CODE = re.compile(r"`([^`]+)`")

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: 8px; margin: .6rem 0; padding: .5rem .9rem; }
summary { cursor: pointer; } code, .method { font-family: ui-monospace, monospace; }
.method { display: inline-block; min-width: 4.2rem; font-weight: 700; text-transform: uppercase; }
.get { color: #2a7; } .post { color: #27c; } .delete { color: #c43; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; } td, th { padding: .25rem .6rem; text-align: left;
  vertical-align: top; border-top: 1px solid var(--soft); } .wide { overflow-x: auto; }
@media (max-width: 40rem) { th { display: none; }
  tr { display: flex; flex-wrap: wrap; border-top: 1px solid var(--soft); }
  td { border: 0; padding: .1rem .6rem .1rem 0; } td:last-child { flex-basis: 100%; } }
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
    rows = [
        _row(p["name"], p["schema"], "; ".join(filter(None, [p["description"], _bounds(p["schema"])])), p["in"])
        for p in operation["parameters"]
    ]
    rows += _fields(document, operation)
    head_row = "<tr><th>Field</th><th>In</th><th>Type</th><th></th></tr>"
    table = f"<div class='wide'><table>{head_row}{''.join(rows)}</table></div>" if rows else ""
    statuses = ", ".join(operation["responses"])
    return f"<details><summary>{head}</summary>{table}<p>Answers: {escape(statuses)}</p></details>"


def _fields(document: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    """The body's fields, one row each."""
    body = operation.get("requestBody")
    if body is None:
        return []
    return list(_rows(document["components"]["schemas"], body["content"]["application/json"]["schema"], ""))


def _rows(schemas: dict[str, Any], schema: dict[str, Any], before: str) -> Iterator[str]:
    """A row for each field; those of an object inside follow it as `webhook.url`, `tools[].name`."""
    found = schemas[_name(schema)]
    required = set(found.get("required", ()))
    for field, about in found["properties"].items():
        said = ["required" if field in required else "", about.get("description", ""), _bounds(about)]
        yield _row(before + field, about, "; ".join(text for text in said if text), "body")
        for inner in _choices(about):
            if "$ref" in inner:
                yield from _rows(schemas, inner, f"{before}{field}.")
            elif "$ref" in inner.get("items", {}):
                yield from _rows(schemas, inner["items"], f"{before}{field}[].")


def _name(reference: dict[str, Any]) -> str:
    return str(reference["$ref"].rsplit("/", 1)[1])


def _choices(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return list(schema.get("anyOf", [schema]))


_BOUNDS = (
    ("minimum", "at least", ""),
    ("exclusiveMinimum", "more than", ""),
    ("maximum", "at most", ""),
    ("exclusiveMaximum", "less than", ""),
    ("minLength", "at least", " characters"),
    ("maxLength", "at most", " characters"),
    ("minItems", "at least", " entries"),
    ("maxItems", "at most", " entries"),
    ("maxProperties", "at most", " pairs"),
)
_TOO_LARGE_TO_TELL = 2**31  # bounds of the machine, not of the matter


def _bounds(schema: dict[str, Any]) -> str:
    """How large and how many, and what it is when nothing is said."""
    found = [
        f"{word} {one[name]:g}{unit}"
        for one in _choices(schema)
        for name, word, unit in _BOUNDS
        if abs(one.get(name, _TOO_LARGE_TO_TELL)) < _TOO_LARGE_TO_TELL
    ]
    default = schema.get("default")
    return ", ".join([*found, *([f"{default} by default"] if default is not None else [])])


def _row(name: str, schema: dict[str, Any], about: str, place: str) -> str:
    said = _CODE.sub(r"<code>\1</code>", escape(about))
    return (
        f"<tr><td><code>{escape(name)}</code></td><td>{place}</td><td><code>{escape(_kind(schema))}</code></td>"
        f"<td>{said}</td></tr>"
    )


def _kind(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "anyOf" in schema:
        kinds = [_kind(s) for s in schema["anyOf"]]
        return " | ".join(k for k in kinds if k != "null")
    if "$ref" in schema:
        return "object"
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"] if value is not None)
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("const", schema.get("type", "any")))
