"""Messages: legal roles, text content only, something to answer.

A message whose text is empty or blank is legal as long as another one says something: an engine that is asked nothing
at all gives nonsense, and some have died of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import InvalidRequest, UnsupportedContent

# Chat templates know no `developer`; it is what `system` was called before.
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
# What clients send back with an earlier answer of ours; harmless while empty.
_EMPTY_COMPANIONS = frozenset({"refusal", "annotations", "audio", "function_call", "tool_calls"})
# What an earlier answer may hold besides, and no model is told again.
_NOT_REPEATED = frozenset({"reasoning", "reasoning_content"})
_PART_FIELDS = ("type", "text", "logprobs")
_LONGEST_NAME = 64


def role_of(item: Mapping[str, Any], param: str) -> str:
    """The engine's role of a message."""
    role = item.get("role")
    if role is None:
        raise InvalidRequest(f"the field '{param}.role' is missing", param=f"{param}.role")
    if not isinstance(role, str) or role not in _ROLES:
        known = ", ".join(_ROLES)
        raise InvalidRequest(f"{param}.role: must be one of {known}", param=f"{param}.role")
    return _ROLES[role]


def text_of(content: Any, param: str, model: str) -> str:
    """The text of a message's content; text parts are joined by line breaks.

    Raises:
        InvalidRequest: there is none, or it is no content at all.
        UnsupportedContent: a part is no text; nothing that it names is fetched.
    """
    if content is None:
        raise InvalidRequest(f"{param}: must be text; it is missing or null", param=param)
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest(f"{param}: must be text or a list of text parts", param=param)
    if not content:
        raise InvalidRequest(f"{param}: the list of parts is empty", param=param)
    return "\n".join(_part_text(part, f"{param}[{at}]", model) for at, part in enumerate(content))


def _part_text(part: Any, param: str, model: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        raise InvalidRequest(f"{param}: must be an object with a type", param=param)
    if kind not in _TEXT_PARTS:
        raise UnsupportedContent(f"{param}: model {model!r} takes text only, not {kind[:64]!r} parts", param=param)
    refuse_unknown(part, _PART_FIELDS, param)
    text = part.get("text")
    if not isinstance(text, str):
        raise InvalidRequest(f"{param}.text: must be a string", param=f"{param}.text")
    return text


def refuse_unknown(item: Mapping[str, Any], known: Sequence[str], param: str) -> None:
    """Refuse fields that are neither known nor empty companions of an earlier answer."""
    for name, value in item.items():
        if name not in known and not (name in _EMPTY_COMPANIONS and not value) and name not in _NOT_REPEATED:
            raise InvalidRequest(f"the field '{param}.{name}' is not known here; remove it", param=f"{param}.{name}")


def name_of(item: Mapping[str, Any], param: str) -> dict[str, str]:
    """The optional `name` of a participant."""
    name = item.get("name")
    if name is None:
        return {}
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidRequest(
            f"{param}.name: must be a string of 1 to {_LONGEST_NAME} characters", param=f"{param}.name"
        )
    return {"name": name}


def check_says_something(messages: Sequence[Mapping[str, Any]], param: str) -> None:
    """Raises `InvalidRequest` when no message holds anything but blanks."""
    if not any(m["content"].strip() for m in messages):
        raise InvalidRequest(f"{param}: there is no text to answer, only blanks", param=param)
