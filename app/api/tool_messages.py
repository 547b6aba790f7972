"""Calls of functions and their answers as messages of a conversation, in both endpoints' spellings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.api import content
from app.errors import InvalidRequest

_LONGEST_ID = 256
_LONGEST_NAME = 64
_CALL_FIELDS = ("type", "id", "call_id", "name", "arguments", "status")
_OUTPUT_FIELDS = ("type", "id", "call_id", "output", "status")


def chat_answer(item: Mapping[str, Any], param: str, model: str) -> dict[str, Any]:
    """Chat's message of role `tool`."""
    content.refuse_unknown(item, ("role", "content", "name", "tool_call_id"), param)
    text = content.text_of(item.get("content"), f"{param}.content", model)
    return {"role": "tool", "content": text, "tool_call_id": _text(item, "tool_call_id", param, _LONGEST_ID)}


def chat_calls(calls: Any, param: str) -> list[dict[str, Any]]:
    """`tool_calls` of chat's message of role `assistant`."""
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise InvalidRequest(f"{param}: must be a list of calls", param=param)
    return [_chat_call(call, f"{param}[{at}]") for at, call in enumerate(calls)]


def _chat_call(call: Mapping[str, Any], param: str) -> dict[str, Any]:
    content.refuse_unknown(call, ("id", "type", "function", "index"), param)
    function = call.get("function")
    if call.get("type") not in (None, "function") or not isinstance(function, dict):
        raise InvalidRequest(f"{param}: must be a call of a function", param=param)
    content.refuse_unknown(function, ("name", "arguments"), f"{param}.function")
    return _call(_text(call, "id", param, _LONGEST_ID), function, f"{param}.function")


def function_call(item: Mapping[str, Any], param: str) -> dict[str, Any]:
    """Responses' item `function_call`, as a call in chat's form."""
    content.refuse_unknown(item, _CALL_FIELDS, param)
    return _call(_text(item, "call_id", param, _LONGEST_ID), item, param)


def function_output(item: Mapping[str, Any], param: str, model: str) -> dict[str, Any]:
    """Responses' item `function_call_output`, as a message of role `tool`."""
    content.refuse_unknown(item, _OUTPUT_FIELDS, param)
    text = content.text_of(item.get("output"), f"{param}.output", model)
    return {"role": "tool", "content": text, "tool_call_id": _text(item, "call_id", param, _LONGEST_ID)}


def check_answers(messages: Sequence[Mapping[str, Any]], param: str) -> None:
    """Raises `InvalidRequest` when an answer belongs to no call before it; chat templates fail on such in many ways."""
    made: set[str] = set()
    for message in messages:
        made |= {call["id"] for call in message.get("tool_calls", ())}
        answered = message.get("tool_call_id")
        if answered is not None and answered not in made:
            raise InvalidRequest(f"{param}: nobody has made the call {answered[:64]!r} that is answered", param=param)


def _call(call_id: str, function: Mapping[str, Any], param: str) -> dict[str, Any]:
    name = _text(function, "name", param, _LONGEST_NAME)
    arguments = function.get("arguments")
    if not isinstance(arguments, str) or not _is_object(arguments):
        # Engines parse it for the chat template, and not all of them survive what is something else.
        raise InvalidRequest(f"{param}.arguments: must be the text of a JSON object", param=f"{param}.arguments")
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _text(item: Mapping[str, Any], name: str, param: str, longest: int) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        where = f"{param}.{name}"
        raise InvalidRequest(f"{where}: must be a string of 1 to {longest} characters", param=where)
    return value
