"""What an engine says arrives whole and the same in every mode: characters, stop strings, log-probabilities."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import pytest

from tests.support.events import chat_text, text

CHAT = "/v1/chat/completions"
SCRIPTS = "žluťoučký kůň · ภาษาไทย · 驿站换马 · 👩‍👩‍👧 🐎"


def user(content: str) -> list[Any]:
    return [{"role": "user", "content": content}]


def both_modes(client, prompt: str, **fields: Any) -> tuple[Any, str]:
    """The waiting answer, and what the deltas of the stream add up to."""
    whole = client.responses.create(model="paced", input=prompt, **fields)
    events = list(client.responses.create(model="paced", input=prompt, stream=True, **fields))
    assert events[-1].response.output_text == text(events)
    assert events[-1].response.status == whole.status
    return whole, text(events)


def strict(body: bytes | str) -> Any:
    """JSON without the extensions that Python takes."""

    def refuse(name: str) -> NoReturn:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(body, parse_constant=refuse)


def test_characters_that_are_split_between_tokens_arrive_whole_in_both_modes(client):
    whole, streamed = both_modes(client, "{{bytes}} " + SCRIPTS)
    assert whole.output_text == streamed == SCRIPTS


@pytest.mark.parametrize("budget", [1, 2, 3, 7])
def test_half_a_character_at_the_end_is_left_out_in_both_modes(client, budget):
    whole, streamed = both_modes(client, "{{bytes}} 驿站👩", max_output_tokens=budget)
    assert whole.output_text == streamed == "驿站👩"[: budget // 3]
    assert (whole.status, whole.usage.output_tokens) == ("incomplete", budget)


@pytest.mark.parametrize(
    ("said", "stop", "left"),
    [
        ("{{bytes}} one horse two", "horse t", "one "),  # over many tokens
        ("{{bytes}} one horse_two", "horse t", "one horse_two"),  # a near miss
        ("{{bytes}} a 驿站 b", "驿站", "a "),
        ("{{bytes}} say horse", "horse t", "say horse"),  # its beginning stands at the very end
        ("one two three four", ["three", "wo th"], "one t"),  # the one that is complete first
        ("one two", [], "one two"),
    ],
)
def test_no_part_of_a_stop_string_leaks_and_nothing_else_is_lost(client, said, stop, left):
    whole, streamed = both_modes(client, said, extra_body={"stop": stop})
    assert whole.output_text == streamed == left
    assert whole.status == "completed"
    given = {"stop": stop} if stop else {}
    chat = client.chat.completions.create(model="paced", messages=user(said), **given)
    chunks = list(client.chat.completions.create(model="paced", messages=user(said), stream=True, **given))
    assert chat.choices[0].message.content == chat_text(chunks) == left
    assert chat.choices[0].finish_reason == chunks[-1].choices[0].finish_reason == "stop"


def test_values_that_are_no_json_numbers_break_no_body(stack, client):
    ask = {"model": "paced", "messages": user("{{logprobs=inf}} a b c"), "logprobs": True, "top_logprobs": 5}
    body = strict(stack.ask("POST", CHAT, ask).body)
    entries = body["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in entries] == ["a", " b", " c"]
    assert {entry["logprob"] for entry in entries} <= {None, -9999.0}
    assert {top["logprob"] for entry in entries for top in entry["top_logprobs"]} <= {None, -9999.0}
    frames = stack.ask("POST", CHAT, {**ask, "stream": True}).body.decode().split("\n\n")
    streamed = [strict(frame[6:]) for frame in frames if frame.startswith("data: {")]
    shown = [chunk["choices"][0]["logprobs"] for chunk in streamed]
    assert [entry for found in shown if found for entry in found["content"]] == entries


def test_log_probabilities_of_a_response_are_the_same_polled_and_streamed(stack):
    ask = {"model": "paced", "input": "{{logprobs=inf}} a b", "include": ["message.output_text.logprobs"]}
    done = stack.ended(stack.submit(ask["input"], include=ask["include"], top_logprobs=2)["id"])
    entries = done["output"][0]["content"][0]["logprobs"]
    assert [len(entry["top_logprobs"]) for entry in entries] == [2, 2]
    frames = stack.ask("GET", f"/v1/responses/{done['id']}?stream=true").body.decode().splitlines()
    events = [strict(line[6:]) for line in frames if line.startswith("data: ")]
    deltas = [entry for e in events if e["type"] == "response.output_text.delta" for entry in e["logprobs"]]
    assert deltas == entries
    assert next(e for e in events if e["type"] == "response.output_text.done")["logprobs"] == entries


@pytest.mark.parametrize("value", [21, -1, 1.5, "5"])
def test_a_count_of_log_probabilities_out_of_range_is_refused(stack, value):
    ask = {"model": "paced", "messages": user("x"), "logprobs": True, "top_logprobs": value}
    answer = stack.ask("POST", CHAT, ask)
    assert (answer.status, answer.json["error"]["param"]) == (400, "top_logprobs")


@pytest.mark.parametrize(
    "number", ['"temperature":NaN', '"temperature":Infinity', '"temperature":1e999', '"top_p":-Infinity']
)
def test_numbers_that_json_does_not_have_are_refused(stack, number):
    body = f'{{"model":"paced","messages":[{{"role":"user","content":"x"}}],{number}}}'
    assert stack.ask("POST", CHAT, body.encode()).status == 400
