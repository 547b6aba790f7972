"""Reasoning, calls of tools and log-probabilities on their way from the paced server to the client's chunks."""

from __future__ import annotations

import json
import math

from tests.integration.model_pool.test_engine_client import collect, request, run, text_of


def chunks_for(server, text, **params):
    return run(server, lambda client: collect(client, request(text, **params)))


def test_reasoning_comes_apart_from_the_text_and_is_counted(shared_paced):
    chunks = chunks_for(shared_paced, "{{reasoning=one two three}} yes")
    assert "".join(chunk.reasoning for chunk in chunks) == "one two three"
    assert text_of(chunks) == "yes"
    assert (chunks[-1].usage.completion_tokens, chunks[-1].usage.reasoning_tokens) == (4, 3)


def test_calls_come_in_pieces_and_end_the_answer(shared_paced):
    chunks = chunks_for(shared_paced, '{{tool=f args={"a": 1, "b": "x y"}}} {{tool=g}} first')
    pieces = [piece for chunk in chunks for piece in chunk.tool_calls]
    begins = [piece for piece in pieces if "id" in piece]
    assert [(p["index"], p["function"]["name"]) for p in begins] == [(0, "f"), (1, "g")]
    arguments = ["".join(p["function"]["arguments"] for p in pieces if p["index"] == n) for n in (0, 1)]
    assert [json.loads(text) for text in arguments] == [{"a": 1, "b": "x y"}, {}]
    assert text_of(chunks) == "first"
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["tool_calls"]


def test_a_budget_cuts_a_call_like_any_text(shared_paced):
    chunks = chunks_for(shared_paced, '{{tool=f args={"a": 1, "b": 2, "c": 3}}}', max_tokens=2)
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["length"]


def test_log_probabilities_come_where_they_are_asked_for(shared_paced):
    bare = chunks_for(shared_paced, "a b c")
    asked = chunks_for(shared_paced, "a b c", logprobs=True, top_logprobs=2)
    assert not any(chunk.logprobs for chunk in bare)
    entries = [entry for chunk in asked for entry in chunk.logprobs]
    assert [entry["token"] for entry in entries] == ["a", " b", " c"]
    assert {len(entry["top_logprobs"]) for entry in entries} == {2}
    assert all(entry["logprob"] < 0 for entry in entries)


def test_values_that_are_no_numbers_of_json_come_through(shared_paced):
    chunks = chunks_for(shared_paced, "{{logprobs=inf}} a b c d", logprobs=True, top_logprobs=3)
    values = [entry["logprob"] for chunk in chunks for entry in chunk.logprobs]
    assert any(math.isnan(value) for value in values)
    assert -math.inf in values


def test_the_prompt_is_counted_without_a_sequence(shared_paced):
    async def both(client):
        before = await client.stats()
        count = await client.count(request("one two three"))
        return count, before, await client.stats()

    count, before, after = run(shared_paced, both)
    assert count == 6
    assert before == after
