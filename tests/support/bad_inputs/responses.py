"""Mistakes that only a response can hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.bad_inputs.chats import inside, part
from tests.support.bad_inputs.fields import BUDGETS
from tests.support.bad_inputs.request import NOBODY, RESPONSES, USER, Bad, respond, shown


def responses() -> Iterator[Bad]:
    """Mistakes that only a response can hold."""
    for name, values in {
        "max_output_tokens": BUDGETS,
        "background": ["true", 1],
        "instructions": [7, [], {}],
        "text": ["x", []],
        "tools": ["x", [1], {}],
        "webhook": ["https://example.com/", []],
        "include": ["x", {}],
        "previous_response_id": [7, []],
    }.items():
        for value in values:
            yield Bad(f"{name}={shown(value)}", "POST", RESPONSES, respond(**{name: value}), inside(name, value))
    for name, given, param in _INPUTS:
        yield Bad(name, "POST", RESPONSES, respond(input=given), param)
    yield Bad("no input", "POST", RESPONSES, {"model": "paced"}, "input")
    yield Bad("messages in a response", "POST", RESPONSES, respond(messages=[USER]), "messages")
    for kind in ("input_image", "input_file", "input_audio", "hologram"):
        body = respond(input=[{"role": "user", "content": [part(kind)]}])
        yield Bad(f"part {kind}", "POST", RESPONSES, body, "input[0].content[0]", code="unsupported_content")
    for kind in ("item_reference", "computer_call", 7):
        body = respond(input=[{"type": kind, "id": "x"}])
        yield Bad(f"item {kind}", "POST", RESPONSES, body, "input[0]", code="unsupported_content")
    for kind in ("web_search", "file_search", "mcp", 7, None):
        body = respond(tools=[{"type": kind}])
        yield Bad(f"tool {kind}", "POST", RESPONSES, body, "tools[0].type")
    for earlier in (NOBODY, "resp_x", "", "chatcmpl-" + "0" * 32, f"{NOBODY}\n"):
        body = respond(previous_response_id=earlier)
        yield Bad(f"after {earlier!r}", "POST", RESPONSES, body, "previous_response_id", 404, "job_not_found")
    yield from _webhooks()


_INPUTS: list[tuple[str, Any, str]] = [
    ("input null", None, "input"),
    ("input a number", 5, "input"),
    ("input an object", {"role": "user", "content": "hi"}, "input"),
    ("input of texts", ["hi"], "input[0]"),
    ("an item that is null", [USER, None], "input[1]"),
    ("an item that is a list", [[USER]], "input[0]"),
    ("input empty list", [], "input"),
    ("input empty", "", "input"),
    ("input blank", " \n", "input"),
    ("an item without a role", [{"content": "hi"}], "input[0].role"),
    ("an item of an unknown role", [{"role": "king", "content": "hi"}], "input[0].role"),
    ("an item without content", [USER, {"role": "user"}], "input[1].content"),
    ("an item whose content is null", [{"role": "user", "content": None}], "input[0].content"),
    ("an item without parts", [{"role": "user", "content": []}], "input[0].content"),
    ("an item's unknown field", [{**USER, "x": 1}], "input[0].x"),
    ("a part's unknown field", [{"role": "user", "content": [{"type": "input_text", "text": "hi", "x": 1}]}],
     "input[0].content[0].x"),
    ("an answer with annotations", [USER, {"role": "assistant", "content": [
        {"type": "output_text", "text": "hi", "annotations": [{"type": "url_citation"}]}]}],
     "input[1].content[0].annotations"),
]  # fmt: skip


def _webhooks() -> Iterator[Bad]:
    for url in (
        "http://example.com/", "https://localhost/", "https://10.0.0.1/", "https://169.254.169.254/", "ftp://a.example/",
        "https://[::1]/", "https://example.com:22/", "file:///etc/passwd", "x", "https://user:pw@example.com/",
        "https://0x7f000001/", "https://[::ffff:10.0.0.1]/",
    ):  # fmt: skip
        body = respond(webhook={"url": url}, background=True)
        yield Bad(f"webhook to {url}", "POST", RESPONSES, body, "webhook.url", code="webhook_url_forbidden")
    for name, hook, param in (
        ("no url", {}, "webhook.url"),
        ("url null", {"url": None}, "webhook.url"),
        ("url empty", {"url": ""}, "webhook.url"),
        ("url long", {"url": "https://a.example/" + "x" * 2048}, "webhook.url"),
        ("unknown event", {"url": "https://a.example/", "events": ["response.made"]}, "webhook.events[0]"),
        ("events text", {"url": "https://a.example/", "events": "response.failed"}, "webhook.events"),
        ("secret", {"url": "https://a.example/", "secret": "x"}, "webhook.secret"),
    ):
        yield Bad(f"webhook {name}", "POST", RESPONSES, respond(webhook=hook, background=True), param)
