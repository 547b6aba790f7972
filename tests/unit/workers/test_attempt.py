"""What one attempt asks of the engine, logs, and counts - fresh and continued."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from app.jobs import events, output
from app.jobs.generation import CanonicalRequest, Claim
from model_pool.errors import EngineBroken, EngineRefused
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


@pytest.mark.parametrize(
    ("text", "finish", "joinable"),
    [("a", "stop", True), ("", "stop", False), (" \n", "stop", False), ("a", "length", False)],
)
def test_only_an_answer_that_says_something_to_its_end_may_be_joined(text: str, finish: str, joinable: bool) -> None:
    attempt = Attempt(claim(), Earlier())
    attempt.take(Chunk(text, (1,)))
    attempt.take(Chunk(finish_reason=finish))
    attempt.close()
    assert attempt.verdict().joinable is joinable


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


def test_the_first_ids_of_an_attempt_say_whose_they_are() -> None:
    attempt = Attempt(claim(), Earlier(), "tok1")
    chunks = (Chunk("a"), Chunk("b", (1,)), Chunk("c", (2,)))
    deltas = [e for chunk in chunks for e in attempt.take(chunk) if json.loads(e)["k"] == "delta"]
    assert [json.loads(e).get("t") for e in deltas] == [None, "tok1", None]


@pytest.mark.parametrize(
    ("tokenizers", "by_ids"),
    [
        (["tok1", ""], True),
        (["tok1", "tok1"], True),
        (["tok2", ""], False),  # another revision's ids would be garbage here
        (["tok1", "tok2"], False),
        (["tok2", "tok1"], False),
        (["", ""], False),  # a worker that did not say it
    ],
)
def test_ids_are_continued_only_where_all_of_them_mean_the_same(tokenizers: list[str], by_ids: bool) -> None:
    deltas = [events.delta(f" {n}", [7 + n], tokenizer=told) for n, told in enumerate(tokenizers)]
    earlier = Earlier.from_log(logged(*events.OPENING, *deltas), "tok1")
    attempt = Attempt(claim((1, 2, 3)), earlier, "tok1")
    continuation = attempt.request("m", FIELDS, None).continuation
    assert continuation is not None
    assert (continuation.text, continuation.by_ids) == (" 0 1", by_ids)
    attempt.take(Chunk(" 2", (9,), prompt_token_ids=(4, 5, 6, 7), finish_reason="stop"))
    attempt.take(Chunk(usage=Usage(prompt_tokens=6, completion_tokens=1)))
    usage = json.loads(attempt.verdict().result)["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (3, 3)  # the input as it was counted first


def test_the_prompts_ids_are_told_anew_while_nothing_was_shown() -> None:
    attempt = Attempt(claim((1, 2, 3)), Earlier(), "tok1")
    attempt.take(Chunk(" 0", (9,), prompt_token_ids=(4, 5)))
    assert attempt.prompt_ids == (4, 5)


def test_without_ids_the_budget_and_the_usage_go_by_what_was_shown() -> None:
    """An engine that streams no ids gives about a delta a token: a lost instance must not double a client's budget."""
    earlier = Earlier.from_log(logged(*events.OPENING, events.delta("a"), events.delta(" b"), events.delta(" c")))
    attempt = Attempt(claim(), earlier)
    assert attempt.request("m", FIELDS, None).params["max_tokens"] == 7
    attempt.take(Chunk(" d", finish_reason="stop"))
    attempt.take(Chunk(usage=Usage(prompt_tokens=8, completion_tokens=1)))
    usage = json.loads(attempt.verdict().result)["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (5, 4)


def test_usage_counts_the_input_once_and_the_output_over_all_attempts() -> None:
    earlier = Earlier.from_log(logged(*events.OPENING, events.delta("a b", [7, 8])))
    attempt = Attempt(claim((1, 2, 3)), earlier)
    attempt.take(Chunk(" c", (9,), finish_reason="stop"))
    attempt.take(Chunk(usage=Usage(prompt_tokens=5, completion_tokens=1)))
    result = json.loads(attempt.verdict().result)
    assert result["text"] == "a b c"
    assert (result["usage"]["input_tokens"], result["usage"]["output_tokens"]) == (3, 3)


def test_of_the_least_length_too_a_continued_answer_asks_for_what_is_left() -> None:
    """An engine refuses a least length above the budget, and what was asked for holds for the whole answer."""
    fields = FIELDS | {"min_tokens"}
    earlier = Earlier.from_log(logged(*events.OPENING, events.delta("a b c", [7, 8, 9])))
    asked = [
        Attempt(claim((1,), min_tokens=least), earlier).request("m", fields, None).params["min_tokens"]
        for least in (9, 3, 2)
    ]
    assert asked == [6, 0, 0]
    assert Attempt(claim(min_tokens=9), Earlier()).request("m", fields, None).params["min_tokens"] == 9


def test_no_more_of_the_input_comes_from_a_cache_than_there_was() -> None:
    """The engine that goes on has what was said in its prompt, and finds that in its prefix cache too."""
    earlier = Earlier.from_log(logged(*events.OPENING, events.delta("a b", [7, 8])))
    attempt = Attempt(claim((1, 2, 3)), earlier)
    attempt.take(Chunk(" c", (9,), finish_reason="stop"))
    attempt.take(Chunk(usage=Usage(prompt_tokens=5, completion_tokens=1, cached_tokens=4)))
    usage = json.loads(attempt.verdict().result)["usage"]
    assert (usage["input_tokens"], usage["cached_tokens"]) == (3, 3)


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


def test_what_a_stop_string_ends_is_logged_with_the_end_alone() -> None:
    """A worker that dies just before it commits leaves a log after which another meets the same stop string."""
    attempt = Attempt(claim((1,), stop=["!"]), Earlier())
    begun = [event for n, text in enumerate(("a", " b", " c! d"), 7) for event in attempt.take(Chunk(text, (n,)))]
    assert attempt.stopped

    again = Attempt(claim((1,), stop=["!"]), Earlier.from_log(logged(*begun)))
    request = again.request("m", FIELDS, None)
    assert request.continuation is not None
    assert request.continuation.token_ids == (7, 8)
    for end in (attempt, again):
        end.take(Chunk(" c! d", (9,)))
        rest = end.close()
        assert events.text_of(logged(*begun, *rest)) == json.loads(end.verdict().result)["text"] == "a b c"


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


def kinds(logged_events: list[str]) -> list[str]:
    return [json.loads(e)["k"] for e in logged_events]


def test_reasoning_is_an_item_of_its_own_before_the_message() -> None:
    attempt = Attempt(claim(), Earlier())
    logged_events = attempt.take(Chunk(reasoning="hm ", token_ids=(1,)))
    logged_events += attempt.take(Chunk(reasoning="so", token_ids=(2,)))
    logged_events += attempt.take(Chunk("yes", (3,), finish_reason="stop"))
    logged_events += attempt.close()
    assert kinds(logged_events) == [
        "r_item", "r_delta", "r_delta", "r_done", "r_item_done",
        "item", "part", "delta", "text_done", "part_done", "item_done",
    ]  # fmt: skip
    result = json.loads(attempt.verdict().result)
    assert result["text"] == "yes"
    assert result["items"] == [{"t": "reasoning", "x": "hm so"}, {"t": "message", "x": "yes"}]
    assert (result["usage"]["output_tokens"], result["usage"]["reasoning_tokens"]) == (3, 2)


def test_an_answer_cut_while_it_reasons_has_no_message() -> None:
    attempt = Attempt(claim(), Earlier())
    attempt.take(Chunk(reasoning="hm", token_ids=(1,), finish_reason="length"))
    assert kinds(attempt.close()) == ["r_done", "r_item_done"]
    verdict = attempt.verdict()
    assert (verdict.status, json.loads(verdict.result)["text"]) == ("incomplete", "")


def test_calls_follow_one_another_each_done_before_the_next() -> None:
    attempt = Attempt(claim(), Earlier())
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "function": {"arguments": "{}"}},
        {"index": 1, "function": {"name": "g", "arguments": "{"}},
        {"index": 1, "function": {"arguments": "}"}},
    ]
    logged_events = [*attempt.take(Chunk("first", (1,))), *attempt.take(Chunk(tool_calls=tuple(pieces)))]
    assert kinds([*logged_events, *attempt.close()]) == [
        "item", "part", "delta", "text_done", "part_done", "item_done",
        "call", "args", "args_done", "call_done", "call", "args", "args", "args_done", "call_done",
    ]  # fmt: skip
    calls = json.loads(attempt.verdict().result)["tool_calls"]
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls] == [
        ("a", "f", "{}"),
        ("call_1_1", "g", "{}"),
    ]
    with pytest.raises(EngineBroken, match="goes back"):
        attempt.take(Chunk(tool_calls=(pieces[1],)))


def test_text_that_is_held_back_comes_out_before_a_call_begins() -> None:
    attempt = Attempt(claim(stop=["abc"]), Earlier())
    logged_events = attempt.take(Chunk("xab", (1,)))
    logged_events += attempt.take(Chunk(tool_calls=({"index": 0, "id": "a", "function": {"name": "f"}},)))
    assert [json.loads(e).get("x") for e in logged_events if json.loads(e)["k"] == "delta"] == ["xab"]


def test_a_near_miss_at_the_very_end_is_in_the_result_too() -> None:
    attempt = Attempt(claim(stop=["abcdefg"]), Earlier())
    shown = attempt.take(Chunk("xabc", (1,), finish_reason="stop")) + attempt.close()
    assert events.text_of(logged(*shown)) == json.loads(attempt.verdict().result)["text"] == "xabc"


def test_a_stop_string_ends_reasoning_as_well() -> None:
    attempt = Attempt(claim(stop=["END"]), Earlier())
    attempt.take(Chunk(reasoning="hm EN", token_ids=(1,)))
    attempt.take(Chunk(reasoning="D more", token_ids=(2,)))
    assert attempt.stopped
    attempt.close()
    assert json.loads(attempt.verdict().result)["items"] == [{"t": "reasoning", "x": "hm "}]


def test_log_probabilities_stay_with_their_text_and_are_json() -> None:
    attempt = Attempt(claim(stop=["!!"]), Earlier())
    entries = [{"token": t, "logprob": v, "bytes": None} for t, v in (("a", -math.inf), ("!", math.nan), ("b", -0.5))]
    shown: list[str] = []
    for text, entry in zip(("a", "!", "b"), entries, strict=True):
        shown += attempt.take(Chunk(text, (1,), logprobs=({**entry, "top_logprobs": [entry]},)))
    shown += attempt.close()
    found = [e["l"] for e in map(json.loads, shown) if e["k"] == "delta"]
    assert [[entry["logprob"] for entry in each] for each in found] == [[-9999.0], [None, -0.5]]
    [item] = json.loads(attempt.verdict().result)["items"]
    assert [entry["token"] for entry in item["l"]] == ["a", "!", "b"]
    assert item["l"][1]["top_logprobs"] == [{"token": "!", "logprob": None, "bytes": [33]}]


def test_log_probabilities_of_a_stop_string_are_cut_with_it() -> None:
    attempt = Attempt(claim(stop=["!"]), Earlier())
    for text in ("a", "!", "b"):
        attempt.take(Chunk(text, (1,), logprobs=({"token": text, "logprob": -1.0},)))
    attempt.close()
    assert [entry["token"] for entry in json.loads(attempt.verdict().result)["items"][0]["l"]] == ["a"]


def test_what_the_log_adds_up_to_is_what_the_result_says() -> None:
    attempt = Attempt(claim(), Earlier())
    shown = attempt.take(Chunk(reasoning="hm"))
    shown += attempt.take(Chunk("a", logprobs=({"token": "a", "logprob": -1.0},)))
    shown += attempt.take(Chunk("b", logprobs=({"token": "b", "logprob": -1.0},)))
    shown += attempt.take(Chunk(tool_calls=({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}},)))
    shown += attempt.close()
    assert output.from_events(logged(*shown)) == output.from_result(json.loads(attempt.verdict().result))
