"""Answers under a JSON schema: the two endpoints' spellings, one engine parameter."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from app.api.checking import WireModel
from app.errors import InvalidRequest

_LARGEST_SCHEMA = 64 * 1024

SchemaName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class JsonSchema(WireModel):
    """Chat's `response_format.json_schema`."""

    name: SchemaName
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None
    description: str | None = None


class ResponseFormat(WireModel):
    """Chat's `response_format`."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    def param(self) -> dict[str, Any] | None:
        """The engine's `response_format`, or None for plain text."""
        if self.type == "text":
            return None
        if self.type == "json_object":
            return {"type": "json_object"}
        if self.json_schema is None:
            raise InvalidRequest(
                "the field 'response_format.json_schema' is missing", param="response_format.json_schema"
            )
        return _schema_param(self.json_schema, "response_format.json_schema.schema")


class TextFormat(WireModel):
    """Responses' `text.format`: the schema's fields stand beside its type."""

    type: Literal["text", "json_object", "json_schema"]
    name: SchemaName | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: bool | None = None
    description: str | None = None

    def param(self) -> dict[str, Any] | None:
        """The engine's `response_format`, or None for plain text."""
        if self.type == "text":
            return None
        if self.type == "json_object":
            return {"type": "json_object"}
        if self.name is None or self.schema_ is None:
            raise InvalidRequest("text.format needs `name` and `schema`", param="text.format")
        fields = self.model_dump(by_alias=True, exclude={"type"})
        return _schema_param(JsonSchema.model_validate(fields), "text.format.schema")


class TextOptions(WireModel):
    """Responses' `text`."""

    format: TextFormat | None = None


def _schema_param(schema: JsonSchema, param: str) -> dict[str, Any]:
    if len(json.dumps(schema.schema_)) > _LARGEST_SCHEMA:
        raise InvalidRequest(f"the schema is larger than {_LARGEST_SCHEMA} bytes", param=param)
    return {"type": "json_schema", "json_schema": schema.model_dump(by_alias=True, exclude_none=True)}
