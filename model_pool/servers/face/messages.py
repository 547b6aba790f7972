"""Messages as clients send them, checked: roles, and content as text or text parts."""

from __future__ import annotations

from typing import Any

from model_pool.servers.face.errors import Refused

ROLES = ("system", "developer", "user", "assistant", "tool")


def checked(messages: Any, *, generation_prompt: bool, continue_final: bool) -> list[dict[str, Any]]:
    """The messages with their content as plain text.

    Raises:
        Refused: they are missing, empty or malformed, or the two flags contradict each other (400).
    """
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "messages must be a list with at least one message", param="messages")
    if continue_final and generation_prompt:
        raise Refused(400, "Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
    return [_checked(message) for message in messages]


def _checked(message: Any) -> dict[str, Any]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ROLES:
        raise Refused(400, f"a message's role must be one of {', '.join(ROLES)}", param="messages")
    return {**message, "content": _text(message.get("content"))}


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        raise Refused(400, "content must be text or a list of text parts", param="messages")
    return "".join(part["text"] for part in parts)
