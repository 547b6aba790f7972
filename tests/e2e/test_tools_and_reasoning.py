"""Reasoning and calls of functions on the whole way, as the official SDK reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.events import numbers

WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CHAT_TOOL: Any = {"type": "function", "function": WEATHER}
TOOL: Any = {"type": "function", **WEATHER}
ASK = '{{reasoning=they want the weather tool=get_weather args={"city": "Nové Město"}}}'
THINK = "{{reasoning=first this, then that}} the answer"


def test_a_response_that_calls_a_function_streams_it_and_keeps_it(stack, client):
    events = list(client.responses.create(model="paced", input=ASK, tools=[TOOL], stream=True))
    assert numbers(events) == list(range(len(events)))
    deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert len(deltas) > 1
    [done] = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert "".join(deltas) == done.arguments
    assert json.loads(done.arguments) == {"city": "Nové Město"}
    final = events[-1].response
    assert [item.type for item in final.output] == ["reasoning", "function_call"]
    assert (final.output[1].name, final.output[1].id) == ("get_weather", done.item_id)
    assert (final.status, final.output_text, final.tools[0].name) == ("completed", "", "get_weather")
    kept = client.responses.retrieve(final.id)
    assert [item.model_dump() for item in kept.output] == [item.model_dump() for item in final.output]


def test_the_sdks_own_accumulation_follows_reasoning_and_calls(client):
    with client.responses.stream(model="paced", input=ASK, tools=[TOOL]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds.index("response.reasoning_text.done") < kinds.index("response.function_call_arguments.done")
    assert json.loads(final.output[1].arguments) == {"city": "Nové Město"}


def test_a_conversation_goes_on_with_the_functions_answer(client):
    first = client.responses.create(model="paced", input=ASK, tools=[TOOL])
    call = first.output[-1]
    answer: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny, 21 °C"}
    said = [item.model_dump(exclude_none=True) for item in first.output]
    given: Any = [{"role": "user", "content": ASK}, *said, answer]
    again = client.responses.create(model="paced", input=given, tools=[TOOL])
    assert again.output_text == "sunny, 21 °C"
    onward = client.responses.create(model="paced", input=[answer], previous_response_id=first.id, tools=[TOOL])
    assert onward.output_text == "sunny, 21 °C"
    listed = client.responses.input_items.list(again.id, order="asc").data
    assert [item.type for item in listed] == ["message", "function_call", "function_call_output"]


def test_chat_calls_functions_waiting_and_streamed_alike(client):
    ask: Any = {"model": "paced", "messages": [{"role": "user", "content": ASK}], "tools": [CHAT_TOOL]}
    whole = client.chat.completions.create(**ask).choices[0]
    [call] = whole.message.tool_calls
    assert (whole.finish_reason, whole.message.content) == ("tool_calls", None)
    assert json.loads(call.function.arguments) == {"city": "Nové Město"}
    with client.chat.completions.stream(**ask) as stream:
        streamed = stream.until_done().get_final_completion().choices[0]
    assert streamed.finish_reason == "tool_calls"
    assert streamed.message.tool_calls[0].function.arguments == call.function.arguments
    messages = [*ask["messages"], whole.message.model_dump(exclude_none=True)]
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
    after = client.chat.completions.create(**{**ask, "messages": messages}).choices[0]
    assert (after.finish_reason, after.message.content) == ("stop", "sunny")


def test_reasoning_stands_apart_and_is_counted(client):
    ask: Any = {"model": "paced", "messages": [{"role": "user", "content": THINK}], "reasoning_effort": "low"}
    chat = client.chat.completions.create(**ask)
    assert (chat.choices[0].message.content, chat.choices[0].message.reasoning_content) == (
        "the answer",
        "first this, then that",
    )
    assert chat.usage.completion_tokens_details.reasoning_tokens == 4
    chunks = [c.choices[0].delta for c in client.chat.completions.create(**ask, stream=True) if c.choices]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in chunks) == "first this, then that"
    response = client.responses.create(model="paced", input=THINK, reasoning={"effort": "low"})
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output[0].content[0].text == "first this, then that"
    assert (response.output_text, response.usage.output_tokens_details.reasoning_tokens) == ("the answer", 4)


@pytest.mark.parametrize("effort", ["cut_at=2", "crash_at=2"])
def test_reasoning_that_broke_off_is_not_continued_and_what_was_said_is_kept(stack, effort):
    job = stack.ended(stack.submit(f"{{{{reasoning=one two three four tpot=50 {effort}}}}} never")["id"])
    assert (job["status"], job["error"]["code"], job["attempts"]) == ("failed", "worker_lost", 1)
    [item] = job["output"]
    assert (item["type"], item["status"]) == ("reasoning", "incomplete")
    assert "one two three four".startswith(item["content"][0]["text"])


def test_an_answer_under_a_schema_passes_the_schema_on(stack, client):
    form: Any = {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": True}
    job = client.responses.create(model="paced", input='{{text={"a": 1}}}', text={"format": form})
    assert json.loads(job.output_text) == {"a": 1}
    assert job.text.format.name == "answer"
    large = {**form, "schema": {"type": "object", "description": "x" * 70_000}}
    answer = stack.ask("POST", "/v1/responses", {"model": "paced", "input": "x", "text": {"format": large}})
    assert (answer.status, answer.json["error"]["param"]) == (400, "text.format.schema")
