"""Responses' `input`: a text, or items that become messages, and messages that become items again."""

from __future__ import annotations

import secrets
from typing import Any

from app.api import content, tool_messages
from app.errors import InvalidRequest, UnsupportedContent

_MESSAGE_FIELDS = ("type", "role", "content", "name", "id", "status", "phase")


def turns_of(given: str | list[dict[str, Any]], model: str) -> list[dict[str, Any]]:
    """The conversation in an engine's form. Reasoning of earlier answers may be sent along; no model is told it again.

    Raises:
        InvalidRequest, UnsupportedContent: naming the item at fault.
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not given:
        raise InvalidRequest("input: the list of messages is empty", param="input")
    turns: list[dict[str, Any]] = []
    for at, item in enumerate(given):
        _add(turns, item, f"input[{at}]", model)
    return turns


def _add(turns: list[dict[str, Any]], item: dict[str, Any], param: str, model: str) -> None:
    match item.get("type", "message"):
        case "message":
            turns.append(_message(item, param, model))
        case "function_call":
            _add_call(turns, tool_messages.function_call(item, param))
        case "function_call_output":
            turns.append(tool_messages.function_output(item, param, model))
        case "reasoning":
            return
        case kind:
            said = f"{param}: model {model!r} takes messages and calls of functions only, not {str(kind)[:64]!r}"
            raise UnsupportedContent(said, param=param)


def _message(item: dict[str, Any], param: str, model: str) -> dict[str, Any]:
    content.refuse_unknown(item, _MESSAGE_FIELDS, param)
    role = content.role_of(item, param)
    return {"role": role, "content": content.text_of(item.get("content"), f"{param}.content", model)}


def _add_call(turns: list[dict[str, Any]], call: dict[str, Any]) -> None:
    """Calls belong to the assistant's message that they follow, or to one without a text."""
    if not turns or turns[-1]["role"] != "assistant":
        turns.append({"role": "assistant", "content": ""})
    turns[-1].setdefault("tool_calls", []).append(call)


def items_of(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """A message as the input items that `input_items` lists."""
    if turn["role"] == "tool":
        return [_item("fco", "function_call_output", call_id=turn["tool_call_id"], output=turn["content"])]
    calls = [
        _item("fc", "function_call", call_id=call["id"], **call["function"], status="completed")
        for call in turn.get("tool_calls", ())
    ]
    if calls and not turn["content"]:
        return calls
    kind = "output_text" if turn["role"] == "assistant" else "input_text"
    parts = [{"type": kind, "text": turn["content"]}]
    return [_item("msg", "message", role=turn["role"], content=parts), *calls]


def _item(prefix: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"{prefix}_{secrets.token_hex(16)}", "type": kind, **fields}
