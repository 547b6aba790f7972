"""What a request may say: the allow-list, types, ranges, and messages that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from app.api.chat_request import chat_order
from app.api.reading import parse_object
from app.api.responses_request import responses_order
from app.errors import InvalidRequest, PermissionDenied, UnsupportedContent
from app.sections import ModelSettings
from app.services.keys import DEV_KEY, ApiKey
from app.services.models import Models
from app.services.orders import Order
from model_pool.engines.tools import lacks_parser

MODELS = Models(
    {"m": ModelSettings(engine="paced", context_length=2048), "v": ModelSettings(engine="vllm")}, lambda _: {}, now=0
)
USER = {"role": "user", "content": "hi"}
PLAIN_KEY = ApiKey("key_1", "t", "", "use", "priority", 0)


def tool(name: str, about: str = "") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": about}}


TOOL = tool("f")


def nothing_said(previous: str, key: ApiKey) -> list[dict[str, Any]]:
    """No earlier response is known."""
    raise AssertionError(f"nobody should ask for {previous}")


def chat(key: ApiKey = DEV_KEY, **fields: Any) -> Order:
    return chat_order({"model": "m", "messages": [USER], **fields}, key, MODELS, None)


def respond(**fields: Any) -> Order:
    return responses_order({"model": "m", "input": "hi", **fields}, DEV_KEY, MODELS, None, nothing_said)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0), ("max_tokens", -5), ("max_tokens", 1.5), ("max_tokens", "10"),
        ("max_tokens", True), ("max_completion_tokens", 0), ("temperature", -0.1), ("temperature", 2.1),
        ("temperature", "1"), ("temperature", True), ("top_p", 0), ("top_p", 1.01), ("seed", 1.5), ("seed", 2**64),
        ("presence_penalty", 3), ("frequency_penalty", -2.5), ("n", 2), ("n", 0), ("n", True), ("stream", "true"),
        ("stream", 1), ("stop", [""]), ("stop", ["a"] * 5), ("stop", [1]), ("stop", "x" * 10_000), ("stop", {}),
        ("metadata", {"a": 1}), ("metadata", {"k" * 65: "v"}), ("metadata", {"k": "v" * 513}), ("metadata", []),
        ("metadata", {str(n): "v" for n in range(17)}), ("service_tier", "vip"), ("deadline_seconds", 0),
        ("deadline_seconds", 10**6), ("tools", [{"type": "function"}]), ("logprobs", 1), ("user", "x" * 513),
        ("tools", [{"type": "web_search"}]), ("tools", [{"type": "function", "function": {"name": "a b"}}]),
        ("tools", [TOOL, TOOL]), ("tools", [tool(f"f{n}") for n in range(129)]), ("tools", [tool("f", "x" * 70_000)]),
        ("tools", [{**TOOL, "surprise": 1}]), ("tool_choice", "maybe"), ("tool_choice", "required"),
        ("tool_choice", {"type": "function", "function": {"name": "f"}}), ("tool_choice", {"type": "function"}),
        ("top_logprobs", 21), ("top_logprobs", -1), ("top_logprobs", 5), ("top_logprobs", 1.5),
        ("reasoning_effort", "huge"), ("reasoning_effort", 1),
        ("stream_options", {"include_usage": True}),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_and_the_field_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(**{field: value})
    assert (caught.value.param or "").startswith(field)
    assert field in caught.value.message


@pytest.mark.parametrize(
    "field",
    [
        "priority", "request_id", "cache_salt", "kv_transfer_params", "chat_template", "chat_template_kwargs",
        "documents", "add_generation_prompt", "continue_final_message", "prompt_logprobs", "use_beam_search", "prompt",
        "prompt_token_ids", "anything",
    ],
)  # fmt: skip
def test_a_field_outside_the_allow_list_is_named(field: str) -> None:
    for ask in (chat, respond):
        with pytest.raises(InvalidRequest, match="not known here") as caught:
            ask(**{field: 1})
        assert caught.value.param == field


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def calling(arguments: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{**CALL, "function": function}]}


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"), ([], "messages"), ("hi", "messages"), ([1], "messages[0]"),
        ([{"content": "hi"}], "messages[0].role"), ([{"role": "king", "content": "hi"}], "messages[0].role"),
        ([{"role": "tool", "content": "hi"}], "messages[0].tool_call_id"),
        ([USER, {"role": "tool", "content": "hi", "tool_call_id": "c"}], "messages"),
        ([{"role": "user"}], "messages[0].content"),
        ([USER, {"role": "user", "content": None}], "messages[1].content"),
        ([{"role": "user", "content": []}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": ""}], "messages"), ([{"role": "user", "content": " \n\t"}], "messages"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "assistant", "content": "x", "tool_calls": [{}]}], "messages[0].tool_calls[0]"),
        ([{"role": "user", "content": "x", "tool_calls": [CALL]}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{**CALL, "id": ""}]}], "messages[0].tool_calls[0].id"),
        ([calling('{"a": ')], "messages[0].tool_calls[0].function.arguments"),
        ([calling("[1]")], "messages[0].tool_calls[0].function.arguments"),
        ([calling({})], "messages[0].tool_calls[0].function.arguments"),
    ],
)  # fmt: skip
def test_messages_must_say_something(messages: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(messages=messages)
    assert caught.value.param == param


def test_missing_messages_are_named() -> None:
    with pytest.raises(InvalidRequest, match="'messages' is missing"):
        chat_order({"model": "m"}, DEV_KEY, MODELS, None)


@pytest.mark.parametrize("given", [None, [], "", "  ", 5, [{"role": "user", "content": ""}]])
def test_an_input_must_say_something(given: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        respond(input=given)
    assert (caught.value.param or "").startswith("input")


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file", "hologram"])
def test_parts_that_are_no_text_are_refused_by_name(kind: str) -> None:
    content = [{"type": "text", "text": "look"}, {"type": kind, kind: {"url": "http://169.254.169.254/"}}]
    with pytest.raises(UnsupportedContent, match=f"'m' takes text only, not '{kind}'") as caught:
        chat(messages=[{"role": "user", "content": content}])
    assert caught.value.param == "messages[0].content[1]"


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert chat(messages=[{"role": "user", "content": parts}]).messages == [{"role": "user", "content": "a\nb"}]
    turn = {"role": "user", "content": [{"type": "input_text", "text": "a"}]}
    assert respond(input=[turn]).messages == [{"role": "user", "content": "a"}]


def test_an_items_kind_that_is_no_message_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedContent, match="computer_call"):
        respond(input=[{"type": "computer_call", "call_id": "1"}])


def test_null_means_absent() -> None:
    nothing = dict.fromkeys(
        ("max_tokens", "temperature", "top_p", "stop", "seed", "n", "metadata", "service_tier", "tools", "user")
    )
    order = chat(**nothing)
    assert (order.params, order.max_tokens, order.metadata, order.tier) == ({}, None, {}, "default")


def test_what_is_given_reaches_the_engine_and_only_that() -> None:
    order = chat(temperature=0, top_p=0.5, stop="END", seed=-1, presence_penalty=1, max_completion_tokens=7, n=1)
    assert order.params == {"temperature": 0, "top_p": 0.5, "stop": ["END"], "seed": -1, "presence_penalty": 1}
    assert order.max_tokens == 7
    assert chat(stop=[]).params == {}


def test_fields_that_the_engine_lacks_are_refused() -> None:
    assert chat(model="v", top_k=5, response_format={"type": "json_object"}).params["top_k"] == 5
    for field, value in {"top_k": 5, "min_p": 0.5}.items():
        with pytest.raises(InvalidRequest, match=f"'m' cannot take the field '{field}'"):
            chat(**{field: value})


def test_what_the_engine_lacks_is_named_as_the_wire_spells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        request_fields = frozenset({"max_tokens"})

    monkeypatch.setattr("model_pool.engines.get", lambda _: Plain)
    for fields, param in (
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"reasoning": {"effort": "low"}}, "reasoning.effort"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"tools": [{"type": "function", "name": "f"}]}, "tools"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            respond(**fields)
        assert caught.value.param == param


def test_tools_become_the_engines_in_either_spelling() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    function = {"name": "f", "description": "d", "parameters": schema, "strict": True}
    wanted = {"tools": [{"type": "function", "function": function}], "parallel_tool_calls": False}
    named = {"type": "function", "function": {"name": "f"}}
    asked = chat(tools=wanted["tools"], tool_choice=named, parallel_tool_calls=False)
    assert asked.params == {**wanted, "tool_choice": named}
    flat = [{"type": "function", **function}]
    order = respond(tools=flat, tool_choice={"type": "function", "name": "f"}, parallel_tool_calls=False)
    assert order.params == asked.params
    assert (order.echo["tools"], order.echo["tool_choice"]) == (flat, {"type": "function", "name": "f"})
    assert chat(tools=[], tool_choice="none").params == {}


def test_tools_need_a_model_that_is_set_up_for_them() -> None:
    for choice in ("auto", "required", None):
        with pytest.raises(InvalidRequest, match="'v' is not set up to call tools"):
            chat(model="v", tools=[TOOL], tool_choice=choice)
    assert chat(model="v", tools=[TOOL], tool_choice="none").params["tool_choice"] == "none"
    assert not lacks_parser("vllm", {"tool_call_parser": "hermes"}, {"tools": [TOOL]})
    assert not lacks_parser("vllm", {"extra_args": ["--tool-call-parser", "x"]}, {"tools": [TOOL]})


def test_a_conversation_with_calls_and_answers_is_the_same_from_both_endpoints() -> None:
    answer = {"role": "tool", "content": "sunny", "tool_call_id": "c"}
    said = {**calling("{}"), "reasoning_content": "hm", "refusal": None}
    order = chat(messages=[USER, said, answer])
    assert order.messages == [USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}, answer]
    items = [
        USER,
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c", "output": "sunny"},
    ]
    asked = respond(input=items)
    assert asked.messages == order.messages
    assert [item["type"] for item in asked.input_items] == ["message", "function_call", "function_call_output"]


def test_log_probabilities_are_asked_for_in_either_spelling() -> None:
    wanted = {"logprobs": True, "top_logprobs": 5}
    assert chat(logprobs=True, top_logprobs=5).params == wanted
    assert respond(top_logprobs=5).params == wanted
    assert respond(include=["message.output_text.logprobs"]).params == {"logprobs": True, "top_logprobs": 0}
    assert (chat(logprobs=False).params, respond(top_logprobs=0).params) == ({}, {})
    for value in (21, -1):
        with pytest.raises(InvalidRequest) as caught:
            respond(top_logprobs=value)
        assert caught.value.param == "top_logprobs"


def test_effort_is_asked_for_in_either_spelling() -> None:
    assert chat(reasoning_effort="low").params == respond(reasoning={"effort": "low"}).params
    assert respond(reasoning={}).params == {}


def test_a_schema_becomes_the_engines_response_format() -> None:
    schema = {"type": "object"}
    form = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
    order = responses_order({"model": "v", "input": "x", "text": {"format": form}}, DEV_KEY, MODELS, None, nothing_said)
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    assert order.params["response_format"] == wanted
    same = chat(model="v", response_format=wanted)
    assert same.params["response_format"] == wanted
    with pytest.raises(InvalidRequest, match="larger than"):
        chat(
            model="v",
            response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {"x": "y" * 70_000}}},
        )


def test_answers_of_exact_length_are_for_operators() -> None:
    assert chat(ignore_eos=True).params == {"ignore_eos": True}
    with pytest.raises(PermissionDenied):
        chat(key=PLAIN_KEY, ignore_eos=True)


def test_instructions_come_first_and_developers_speak_as_system() -> None:
    order = respond(instructions="be kind", input=[{"role": "developer", "content": "d"}, USER])
    assert [m["role"] for m in order.messages] == ["system", "system", "user"]
    assert [i["role"] for i in order.input_items] == ["system", "user"]
    assert order.echo["instructions"] == "be kind"


def test_an_answer_of_ours_can_be_sent_back() -> None:
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
              "content": [{"type": "output_text", "text": "yes", "annotations": [], "logprobs": []}]}  # fmt: skip
    assert respond(input=[USER, answer, USER]).messages[1] == {"role": "assistant", "content": "yes"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": NaN}', b'{"a": Infinity}', b'{"a": -Infinity}', b'{"a": 1e999}', b'{"a": "\\ud800"}',
        b'{"a": ["\\udc00x"]}', b'{"\\ud83d": 1}', b'{"a": "\\u0000"}', b'{"a": "\xff"}', b"nope", b"[]", b"", b"1",
        b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", b'{"a": ' + b"1" * 5000 + b"}",
    ],
)  # fmt: skip
def test_what_is_not_strict_json_text_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_object(body)


def test_escaped_pairs_and_every_script_pass() -> None:
    assert parse_object(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}
    assert parse_object('{"a": "שלום é 驿 👩‍👩‍👧"}'.encode()) == {"a": "שלום é 驿 👩‍👩‍👧"}


@pytest.mark.parametrize(
    ("body", "param"),
    [(b'{"a": 1, "b": {"c": 1, "c": 2}}', "c"), (b'{"\\ud800": 1, "\\ud800": 2}', "\\ud800"), (b'{"": 1, "": 1}', "")],
)
def test_a_name_that_stands_twice_is_refused(body: bytes, param: str) -> None:
    with pytest.raises(InvalidRequest, match="stands twice") as caught:
        parse_object(body)
    assert caught.value.param == param
