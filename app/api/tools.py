"""Function tools: the two endpoints' spellings, one set of engine parameters, bounded in number and size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from app.api.checking import WireModel
from app.errors import InvalidRequest

_MOST_TOOLS = 128
_LARGEST_TOOLS = 64 * 1024
_MODES = ("none", "auto", "required")

FunctionName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class Function(WireModel):
    """A function that the model may call; `parameters` is a JSON schema of its arguments."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChatTool(WireModel):
    """Chat's spelling."""

    type: Literal["function"]
    function: Function


class _OfAType(WireModel):
    type: Literal["function"]


class ResponsesTool(Function, _OfAType):
    """Responses' spelling: the function's fields stand beside the type, which is looked at first."""

    @property
    def function(self) -> Function:
        return Function.model_validate(self.model_dump(exclude={"type"}))


def _check_choice(value: Any) -> Any:
    """A mode as it is, a function in either spelling as `{"name": …}`."""
    if value is None or value in _MODES:
        return value
    named = value.get("function", value) if isinstance(value, dict) and value.get("type") == "function" else None
    name = named.get("name") if isinstance(named, dict) else None
    if not isinstance(name, str):
        raise ValueError(f"must be one of {', '.join(_MODES)}, or name a function")  # noqa: TRY004 -- pydantic's way
    return {"name": name}


ToolChoice = Annotated[
    Any,
    BeforeValidator(_check_choice),
    WithJsonSchema({"anyOf": [{"enum": [*_MODES, None]}, {"type": "object", "required": ["type"]}]}),
]
"""`none`, `auto`, `required`, or the function that must be called."""


def tool_params(tools: Sequence[Function] | None, choice: Any, *, parallel: bool | None) -> dict[str, Any]:
    """The engine's parameters; none without tools.

    Raises:
        InvalidRequest: too many, too large, two of one name, or a choice that names none of them.
    """
    if not tools:
        if choice not in (None, "none", "auto"):
            raise InvalidRequest("tool_choice: there are no tools to choose from", param="tool_choice")
        return {}
    names = [tool.name for tool in tools]
    _check_bounds(tools, names)
    params: dict[str, Any] = {"tools": [_tool(tool) for tool in tools]}
    if isinstance(choice, dict) and choice["name"] not in names:
        raise InvalidRequest(f"tool_choice: {choice['name'][:64]!r} is none of the tools", param="tool_choice")
    if choice is not None:
        params["tool_choice"] = {"type": "function", "function": choice} if isinstance(choice, dict) else choice
    return params if parallel is None else {**params, "parallel_tool_calls": parallel}


def _check_bounds(tools: Sequence[Function], names: list[str]) -> None:
    if len(tools) > _MOST_TOOLS:
        raise InvalidRequest(f"tools: there are {len(tools)}; at most {_MOST_TOOLS} are possible", param="tools")
    if len(set(names)) < len(names):
        raise InvalidRequest("tools: two of them have the same name", param="tools")
    if len(json.dumps([_tool(tool) for tool in tools])) > _LARGEST_TOOLS:
        raise InvalidRequest(f"tools: together they are larger than {_LARGEST_TOOLS} bytes", param="tools")


def _tool(tool: Function) -> dict[str, Any]:
    return {"type": "function", "function": tool.model_dump(exclude_none=True)}
