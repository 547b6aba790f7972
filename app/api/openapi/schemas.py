"""Schemas of what is answered. Requests are described by the models that check them."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_OPEN: Schema = {"type": "object"}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {"type": "object", "required": sorted(required), "properties": {**required, **(optional or {})}}


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _listed(of: str) -> Schema:
    entries: dict[str, Schema] = {"object": {"const": "list"}, "data": {"type": "array", "items": reference(of)}}
    cursors = {"has_more": {"type": "boolean"}, "first_id": _nullable(_TEXT), "last_id": _nullable(_TEXT)}
    return _object(entries, cursors)


def reference(name: str) -> Schema:
    """A pointer to a named schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


STATUSES = ["queued", "in_progress", "completed", "failed", "cancelled", "incomplete"]

ANSWERS: dict[str, Schema] = {
    "Error": _object(
        {
            "error": _object(
                {"message": _TEXT, "type": _TEXT, "param": _nullable(_TEXT), "code": _nullable(_TEXT)},
            )
        }
    ),
    "Response": _object(
        {
            "id": {"type": "string", "pattern": "^resp_[0-9a-f]{32}$"},
            "object": {"const": "response"},
            "created_at": _WHOLE,
            "completed_at": _nullable(_WHOLE),
            "status": {"enum": STATUSES},
            "model": _TEXT,
            "output": {"type": "array", "items": _OPEN},
            "error": _nullable(_object({"code": _TEXT, "message": _TEXT})),
            "incomplete_details": _nullable(_OPEN),
            "usage": _nullable(_OPEN),
            "metadata": _OPEN,
            "background": {"type": "boolean"},
        },
        {"queue": _OPEN, "cache": _TEXT, "attempts": _WHOLE, "degraded": {"type": "boolean"}},
    ),
    "ResponseList": _listed("Response"),
    "InputItem": _object({"id": _TEXT, "type": _TEXT}),
    "InputItemList": _listed("InputItem"),
    "Deleted": _object({"id": _TEXT, "object": {"const": "response.deleted"}, "deleted": {"const": True}}),
    "ChatCompletion": _object(
        {
            "id": {"type": "string", "pattern": "^chatcmpl-[0-9a-f]{32}$"},
            "object": {"const": "chat.completion"},
            "created": _WHOLE,
            "model": _TEXT,
            "choices": {"type": "array", "items": _object({"index": _WHOLE, "message": _OPEN})},
        },
        {"usage": _nullable(_OPEN)},
    ),
    "Model": _object({"id": _TEXT, "object": {"const": "model"}, "created": _WHOLE, "owned_by": _TEXT}),
    "ModelList": _listed("Model"),
    "Secret": _OPEN,
    "Health": _object({"status": _TEXT}, {"missing": {"type": "array", "items": _TEXT}}),
    "ClientToken": _object({"id": _TEXT, "object": {"const": "client_token"}, "value": _TEXT, "expires_at": _WHOLE}),
    "Breakers": _OPEN,
    "Order": _object({"id": _TEXT, "ordered": _TEXT}),
    "Cache": _OPEN,
    "Cleared": _object({"removed": _WHOLE, "complete": {"type": "boolean"}}),
    "Queues": _object({"models": _OPEN, "hints": _OPEN, "totals": _OPEN}),
    "DeadLetters": _OPEN,
    "Queued": _object({"id": _TEXT, "status": {"const": "queued"}}),
    "Pool": _object({"models": _OPEN}),
}
