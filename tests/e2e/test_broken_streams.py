"""A stream that fails after its first byte says so once, as an error, and ends; usage is the same in every mode."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.support.events import chat_text, counting, named, numbers, text

CHAT = "/v1/chat/completions"
# Answers with a penalty are not continued by another engine.
UNCONTINUED = {"presence_penalty": 0.5}
FAULTS = {
    "the stream breaks off": ("{{tokens=50 cut_at=5}}", UNCONTINUED, "worker_lost"),
    "the engine dies": ("{{tokens=50 crash_at=5}}", UNCONTINUED, "worker_lost"),
    "the deadline passes": ("{{tokens=500 tpot=20}}", {"deadline_seconds": 4}, "deadline_exceeded"),
}


def user(content: str) -> list[Any]:
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_chat_stream_that_fails_ends_with_one_error(stack, fault):
    prompt, fields, code = FAULTS[fault]
    ask = {"model": "paced", "messages": user(prompt), "stream": True, "stream_options": {"include_usage": True}}
    body = stack.ask("POST", CHAT, {**ask, **fields}).body.decode()  # which was ended, or this would not return
    sent = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    assert "[DONE]" not in sent
    *chunks, last = map(json.loads, sent)
    assert set(last) == {"error"}
    assert set(last["error"]) == {"message", "type", "param", "code"}
    assert last["error"]["code"] == code
    assert all("error" not in chunk and not chunk.get("usage") for chunk in chunks)
    choices = [chunk["choices"][0] for chunk in chunks]
    assert {choice["finish_reason"] for choice in choices} == {None}
    said = "".join(choice["delta"].get("content") or "" for choice in choices)
    assert said
    assert counting(500).startswith(said)
    kept = stack.get(f"{CHAT}/{chunks[0]['id']}")[1]
    assert (kept["status"], kept["error"]["code"]) == ("failed", code)
    assert kept["choices"][0]["message"]["content"].startswith(said)


def test_the_sdk_raises_what_a_failed_chat_stream_says(client):
    prompt, fields, code = FAULTS["the stream breaks off"]
    stream = client.chat.completions.create(model="paced", messages=user(prompt), stream=True, extra_body=fields)
    with pytest.raises(openai.APIError) as caught:
        list(stream)
    assert caught.value.code == code


@pytest.mark.parametrize("fault", FAULTS)
def test_a_response_stream_that_fails_ends_as_failed_and_keeps_its_half(stack, fault):
    prompt, fields, code = FAULTS[fault]
    if fields is UNCONTINUED:  # as this endpoint says it
        fields = {"text": {"format": {"type": "json_object"}}}
    ask = {"model": "paced", "input": prompt, "stream": True, **fields}
    with stack.open("POST", "/v1/responses", ask) as answer:
        events = [frame.body for frame in named(answer)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    ends = [
        event for event in events if event["type"] in {"response.completed", "response.failed", "response.incomplete"}
    ]
    assert [end["type"] for end in ends] == ["response.failed"]
    assert events[-1] is ends[0]
    said = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert said
    assert counting(500).startswith(said), "it began anew in the same stream"
    assert (ends[0]["response"]["error"]["code"], ends[0]["response"]["usage"]) == (code, None)
    kept = stack.job(events[0]["response"]["id"])
    assert (kept["status"], kept["error"]["code"]) == ("failed", code)
    assert stack.text_of(kept).startswith(said)


def test_what_is_wrong_before_the_first_byte_is_a_plain_answer(stack):
    for wrong in ({"n": 0}, {"temperature": 9}, {"messages": []}):
        answer = stack.ask("POST", CHAT, {"model": "paced", "messages": user("x"), "stream": True, **wrong})
        assert (answer.status, answer.headers["content-type"]) == (400, "application/json")


def test_usage_is_the_same_in_every_mode(stack, client):
    prompt, budget = "{{tokens=7}}", 5
    chats = {"model": "paced", "messages": user(prompt), "max_tokens": budget}
    waited = client.chat.completions.create(**chats)
    chunks = list(client.chat.completions.create(**chats, stream=True, stream_options={"include_usage": True}))
    read = client.chat.completions.retrieve(waited.id)
    assert {chat_text(chunks), waited.choices[0].message.content} == {counting(budget)}
    found = [
        (u.prompt_tokens, u.completion_tokens, u.total_tokens) for u in (waited.usage, chunks[-1].usage, read.usage)
    ]
    asked = {"model": "paced", "input": prompt, "max_output_tokens": budget, "temperature": 0}
    once = client.responses.create(**asked)
    cached = client.responses.create(**asked)
    events = list(client.responses.create(**asked, stream=True))
    polled = stack.ended(client.responses.create(**asked, background=True).id)["usage"]
    assert numbers(events) == list(range(len(events)))
    assert {text(events), once.output_text, cached.output_text} == {counting(budget)}
    used = [each.usage.to_dict() for each in (once, cached, events[-1].response)]
    found += [(u["input_tokens"], u["output_tokens"], u["total_tokens"]) for u in (*used, polled)]
    assert len(set(found)) == 1
    assert found[0][1] == budget
