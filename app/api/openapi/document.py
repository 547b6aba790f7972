"""Puts the document together: OpenAPI 3.1, from the operations, the request models and the answers' schemas."""

from __future__ import annotations

import functools
from typing import Any

from pydantic.json_schema import models_json_schema

from app.api.openapi.fields import described
from app.api.openapi.operations import OPERATIONS, Operation, Parameter
from app.api.openapi.schemas import ANSWERS, reference

_TEMPLATE = "#/components/schemas/{model}"


@functools.cache
def document(version: str) -> dict[str, Any]:
    """The document as JSON-able data. `version` is Posthouse's own."""
    models = sorted({o.body for o in OPERATIONS if o.body is not None}, key=lambda m: m.__name__)
    _, requests = models_json_schema([(m, "validation") for m in models], ref_template=_TEMPLATE)
    schemas = dict(requests.get("$defs", {}))
    schemas |= {model.__name__: described(schemas[model.__name__]) for model in models}
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Posthouse",
            "version": version,
            "description": "Self-hosted, OpenAI-compatible, asynchronous LLM inference. OpenAI's SDKs are its clients.",
        },
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": {**ANSWERS, **schemas},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.about,
        "tags": [operation.tag],
        "parameters": [_parameter(p) for p in operation.parameters],
        "responses": _answers(operation),
    }
    if operation.open:
        made["security"] = []
    if operation.body is not None:
        content = {"application/json": {"schema": reference(operation.body.__name__)}}
        made["requestBody"] = {"required": True, "content": content}
    return made


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.about,
        "schema": parameter.schema,
        **({"style": parameter.style} if parameter.style else {}),
    }


def _answers(operation: Operation) -> dict[str, Any]:
    good: dict[str, Any] = {}
    if operation.answer:
        good["application/json"] = {"schema": reference(operation.answer)}
    else:
        good["text/plain"] = {"schema": {"type": "string"}}
    if operation.streams:
        good["text/event-stream"] = {}  # OpenAPI 3.1 has no words for a stream's events
    answers: dict[str, Any] = {"200": {"description": operation.about, "content": good}}
    if operation.leads_to:
        answers["200"]["links"] = {name: _link(name) for name in operation.leads_to}
    if operation.name == "readResponse":
        answers["204"] = {"description": "`Last-Event-ID` names the last event: there is nothing more"}
    for status in sorted(operation.errors):
        answers[str(status)] = _json("What is wrong, in OpenAI's error object", "Error")
    for status, schema in operation.failures:
        answers[str(status)] = _json("Not now, and why", schema)
    return answers


def _link(name: str) -> dict[str, Any]:
    return {"operationId": name, "parameters": {"id": "$response.body#/id"}}


def _json(about: str, schema: str) -> dict[str, Any]:
    return {"description": about, "content": {"application/json": {"schema": reference(schema)}}}
