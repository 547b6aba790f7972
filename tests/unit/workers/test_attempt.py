"""What one attempt asks of the engine, logs, and counts - fresh and continued."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.jobs import events
from app.jobs.generation import CanonicalRequest, Claim
from model_pool.errors import EngineRefused
from model_pool.exchange import Chunk, Usage
from workers.attempt import Attempt, Earlier

FIELDS = frozenset({"temperature", "max_tokens", "stop"})


def claim(prompt_ids: tuple[int, ...] = (), **params: Any) -> Claim:
    request = CanonicalRequest([{"role": "user", "content": "hi"}], {"max_tokens": 10, **params})
    return Claim("gen_1", 2, 1, 3, 0, 0, request, "t", prompt_ids, bool(prompt_ids), continuable=True)


def logged(*bodies: str) -> list[events.Event]:
    return [events.Event(3 + n, json.loads(body)) for n, body in enumerate(bodies)]


def test_fields_that_the_engine_may_not_get_stay_behind() -> None:
    request = Attempt(claim(temperature=0, priority=1), Earlier()).request("m", FIELDS, "salt")
    assert request.params == {"temperature": 0, "max_tokens": 10}
    assert (request.cache_salt, request.continuation) == ("salt", None)


def test_with_stop_strings_the_engine_leaves_them_in() -> None:
    request = Attempt(claim(stop=["x"]), Earlier()).request("m", FIELDS, None)
    assert request.params["include_stop_str_in_output"] is True


def test_the_first_text_opens_the_output_item_once() -> None:
    attempt = Attempt(claim(), Earlier())
    kinds = [json.loads(e)["k"] for c in (Chunk("a", (1,)), Chunk("b", (2,))) for e in attempt.take(c)]
    assert kinds == ["item", "part", "delta", "delta"]


def test_an_answer_without_text_still_opens_and_closes_its_item() -> None:
    attempt = Attempt(claim(), Earlier())
    attempt.take(Chunk(finish_reason="stop"))
    assert [json.loads(e)["k"] for e in attempt.close()] == ["item", "part", "text_done", "part_done", "item_done"]


def test_a_continued_answer_asks_for_what_is_left_by_ids() -> None:
    earlier = Earlier.from_log(logged(*events.OPENING, events.delta("a b", [7, 8])))
    attempt = Attempt(claim((1, 2, 3)), earlier)
    request = attempt.request("m", FIELDS, None)
    assert request.params["max_tokens"] == 8
    assert request.continuation is not None
    assert request.continuation.prompt_token_ids == (1, 2, 3)
    assert request.continuation.token_ids == (7, 8)
    assert [json.loads(e)["k"] for e in attempt.take(Chunk(" c", (9,)))] == ["delta"]


def test_without_ids_an_answer_is_continued_by_its_text() -> None:
    earlier = Earlier.from_log(logged(*events.OPENING, events.delta("a b")))
    continuation = Attempt(claim(), earlier).request("m", FIELDS, None).continuation
    assert continuation is not None
    assert (continuation.text, continuation.by_ids) == ("a b", False)


def test_usage_counts_the_input_once_and_the_output_over_all_attempts() -> None:
    earlier = Earlier.from_log(logged(*events.OPENING, events.delta("a b", [7, 8])))
    attempt = Attempt(claim((1, 2, 3)), earlier)
    attempt.take(Chunk(" c", (9,), finish_reason="stop"))
    attempt.take(Chunk(usage=Usage(prompt_tokens=5, completion_tokens=1)))
    result = json.loads(attempt.verdict().result)
    assert result["text"] == "a b c"
    assert (result["usage"]["input_tokens"], result["usage"]["output_tokens"]) == (3, 3)


def test_nothing_left_of_the_budget_ends_as_length() -> None:
    earlier = Earlier.from_log(logged(*events.OPENING, events.delta("x", range(10))))
    attempt = Attempt(claim((1,)), earlier)
    assert attempt.left == 0
    attempt.exhausted()
    verdict = attempt.verdict()
    assert (verdict.status, json.loads(verdict.result)["finish_reason"]) == ("incomplete", "length")


def test_a_stop_string_ends_the_answer_as_stop_whatever_the_engine_says() -> None:
    attempt = Attempt(claim(stop=["!"]), Earlier())
    attempt.take(Chunk("hey!", (1,), finish_reason="length"))
    assert attempt.stopped
    result = json.loads(attempt.verdict().result)
    assert (result["text"], result["finish_reason"]) == ("hey", "stop")


def test_streamed_pieces_of_a_tool_call_become_one_call() -> None:
    attempt = Attempt(claim(), Earlier())
    for delta in (
        {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a"'}},
        {"index": 0, "function": {"arguments": ":1}"}},
    ):
        attempt.take(Chunk(tool_calls=(delta,)))
    [call] = json.loads(attempt.verdict().result)["tool_calls"]
    assert call == {"type": "function", "id": "c1", "function": {"name": "f", "arguments": '{"a":1}'}}


@pytest.mark.parametrize(("prompt", "budget"), [(100, 100), (101, 20)])
def test_an_asked_budget_that_does_not_fit_is_refused_with_the_numbers(prompt: int, budget: int) -> None:
    attempt = Attempt(claim(max_tokens=budget, uncounted="asked"), Earlier())
    with pytest.raises(EngineRefused, match=f"holds 120 tokens, but the prompt has {prompt} tokens and {budget}") as no:
        attempt.fit(prompt, 120)
    assert no.value.code == "context_length_exceeded"


def test_an_asked_budget_that_fits_is_kept() -> None:
    attempt = Attempt(claim(max_tokens=20, uncounted="asked"), Earlier())
    attempt.fit(100, 120)
    assert (attempt.left, attempt.uncounted) == (20, False)


def test_an_open_budget_is_lowered_to_what_is_left() -> None:
    attempt = Attempt(claim(max_tokens=60, uncounted="open"), Earlier())
    assert attempt.uncounted
    attempt.fit(119, 120)
    assert attempt.left == 1
    with pytest.raises(EngineRefused, match="the prompt has 120 tokens and at least 1 token"):
        Attempt(claim(max_tokens=60, uncounted="open"), Earlier()).fit(120, 120)
