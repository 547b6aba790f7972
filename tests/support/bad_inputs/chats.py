"""Mistakes that only a chat can hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.bad_inputs.fields import BUDGETS
from tests.support.bad_inputs.request import CHAT, USER, Bad, chat, shown


def chats() -> Iterator[Bad]:
    """Mistakes that only a chat can hold."""
    for name, values in {
        "max_tokens": BUDGETS,
        "max_completion_tokens": BUDGETS,
        "presence_penalty": [3, -2.5, "1", True],
        "frequency_penalty": [3, "x", []],
        "n": [0, 2, -1, "1", 1.5, True],
        "stream_options": [{"include_usage": True}, "x", []],
        "tools": ["x", [1], {}],
        "tool_choice": [7, "sometimes"],
        "response_format": ["json", [], 7],
    }.items():
        for value in values:
            yield Bad(f"{name}={shown(value)}", "POST", CHAT, chat(**{name: value}), inside(name, value))
    for name, messages, param in _MESSAGES:
        yield Bad(name, "POST", CHAT, chat(messages=messages), param)
    yield Bad("no messages", "POST", CHAT, {"model": "paced"}, "messages")
    yield Bad("input in a chat", "POST", CHAT, chat(input="x"), "input")
    for kind in _PARTS:
        body = chat(messages=[{"role": "user", "content": [{"type": "text", "text": "look"}, part(kind)]}])
        yield Bad(f"part {kind}", "POST", CHAT, body, "messages[0].content[1]", code="unsupported_content")
    for name, form, param in _FORMS:
        yield Bad(name, "POST", CHAT, chat(response_format=form), param)


def inside(name: str, value: Any) -> str:
    return f"{name}[0]" if value == [1] else name


_MESSAGES: list[tuple[str, Any, str]] = [
    ("messages null", None, "messages"),
    ("messages empty", [], "messages"),
    ("messages text", "hi", "messages"),
    ("messages object", {"role": "user", "content": "hi"}, "messages"),
    ("a message that is a number", [1], "messages[0]"),
    ("a message that is null", [USER, None], "messages[1]"),
    ("a message that is a list", [[USER]], "messages[0]"),
    ("an empty message", [{}], "messages[0].role"),
    ("no role", [{"content": "hi"}], "messages[0].role"),
    ("an unknown role", [{"role": "king", "content": "hi"}], "messages[0].role"),
    ("a role in capitals", [{"role": "User", "content": "hi"}], "messages[0].role"),
    ("a role that is a list", [{"role": ["user"], "content": "hi"}], "messages[0].role"),
    ("a role that is null", [{"role": None, "content": "hi"}], "messages[0].role"),
    ("no content", [{"role": "user"}], "messages[0].content"),
    ("content null", [USER, {"role": "user", "content": None}], "messages[1].content"),
    ("content a number", [{"role": "user", "content": 5}], "messages[0].content"),
    ("content true", [{"role": "user", "content": True}], "messages[0].content"),
    ("content an object", [{"role": "user", "content": {"text": "hi"}}], "messages[0].content"),
    ("no parts", [{"role": "user", "content": []}], "messages[0].content"),
    ("a part of text alone", [{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
    ("a part without a type", [{"role": "user", "content": [{"text": "x"}]}], "messages[0].content[0]"),
    ("a part whose type is a number", [{"role": "user", "content": [{"type": 1}]}], "messages[0].content[0]"),
    ("a text part without text", [{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
    ("a text part of null", [{"role": "user", "content": [{"type": "text", "text": None}]}],
     "messages[0].content[0].text"),
    ("a part's unknown field",
     [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}],
     "messages[0].content[0].cache_control"),
    ("empty text", [{"role": "user", "content": ""}], "messages"),
    ("blanks", [{"role": "user", "content": " \n\t\u3000"}], "messages"),
    ("blank parts", [{"role": "user", "content": [{"type": "text", "text": " "}]}], "messages"),
    ("an unknown field", [{**USER, "cache_control": {"type": "ephemeral"}}], "messages[0].cache_control"),
    ("a name that is a number", [{**USER, "name": 7}], "messages[0].name"),
    ("an empty name", [{**USER, "name": ""}], "messages[0].name"),
    ("a long name", [{**USER, "name": "x" * 65}], "messages[0].name"),
]  # fmt: skip
_PARTS = ("image_url", "input_audio", "file", "video_url", "hologram")


def part(kind: str) -> dict[str, Any]:
    return {"type": kind, kind: {"url": "http://169.254.169.254/latest/meta-data", "data": "AAAA", "format": "wav"}}


_FORMS: list[tuple[str, Any, str]] = [
    ("a format without a type", {}, "response_format.type"),
    ("an unknown format", {"type": "xml"}, "response_format.type"),
    ("no schema", {"type": "json_schema"}, "response_format.json_schema"),
    ("an empty schema", {"type": "json_schema", "json_schema": {}}, "response_format.json_schema.name"),
    ("a schema's bad name", {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}},
     "response_format.json_schema.name"),
    ("a schema that is text", {"type": "json_schema", "json_schema": {"name": "a", "schema": "x"}},
     "response_format.json_schema.schema"),
    ("a schema too large", {"type": "json_schema", "json_schema": {"name": "a", "schema": {"x": "y" * 70_000}}},
     "response_format.json_schema.schema"),
    ("an unknown field of a format", {"type": "json_object", "x": 1}, "response_format.x"),
]  # fmt: skip
