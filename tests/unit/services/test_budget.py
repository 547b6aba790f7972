"""Budgets: what surely does not fit is refused with the numbers, what nobody asked for is capped to what is left."""

from __future__ import annotations

import pytest

from app.errors import ContextLengthExceeded, QueueUnavailable
from app.sections import ModelSettings
from app.services.budget import (
    Budget,
    estimated_budget,
    exact_budget,
    expected_cost,
    prompt_estimate,
    refuse_hopeless,
)
from app.services.models import Models, OfferedModel

MODEL = OfferedModel("m", ModelSettings(context_length=2048))


def say(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def exact(prompt: int, asked: int | None = None, model: OfferedModel = MODEL) -> Budget:
    return exact_budget(model, prompt, asked, prompt_param="messages", param="max_tokens")


def estimated(text: str, asked: int | None = None, model: OfferedModel = MODEL) -> Budget:
    return estimated_budget(model, say(text), asked, param="max_tokens")


def test_a_prompt_that_no_tokenizer_could_make_fit_is_refused_uncounted() -> None:
    with pytest.raises(ContextLengthExceeded, match="holds 2048 tokens, but the prompt has at least 2343 tokens"):
        refuse_hopeless(MODEL, say("x" * 300_000), None, param="messages")


def test_what_may_fit_is_left_to_the_count() -> None:
    refuse_hopeless(MODEL, say("x" * 100_000), 10**9, param="messages")


@pytest.mark.parametrize(("text", "asked"), [("hi", 2048), ("hi", 10**9), ("x" * 262_000, 100)])
def test_without_a_count_too_it_is_refused_what_cannot_fit(text: str, asked: int | None) -> None:
    with pytest.raises(ContextLengthExceeded, match="has at least") as caught:
        estimated(text, asked)
    assert caught.value.param == "max_tokens"


@pytest.mark.parametrize(
    ("prompt", "asked", "param", "said"),
    [
        (2048, None, "messages", "the prompt has 2048 tokens and at least 1 token"),
        (2100, None, "messages", "the prompt has 2100 tokens"),
        (2100, 5, "messages", "5 tokens of output"),
        (100, 2000, "max_tokens", "the prompt has 100 tokens and 2000 tokens of output"),
        (100, 10**12, "max_tokens", "1000000000000 tokens"),
    ],
)
def test_a_counted_prompt_that_does_not_fit_is_refused_with_all_numbers(
    prompt: int, asked: int | None, param: str | None, said: str
) -> None:
    with pytest.raises(ContextLengthExceeded, match="holds 2048 tokens") as caught:
        exact(prompt, asked)
    assert said in caught.value.message
    assert caught.value.param == param


def test_an_open_budget_is_what_the_prompt_leaves() -> None:
    assert exact(2047) == Budget(1, 2047)
    assert exact(100) == Budget(1948, 100)


def test_a_budget_that_was_asked_for_is_kept() -> None:
    assert (exact(48, 2000).max_tokens, exact(48, 1).max_tokens) == (2000, 1)


def test_an_open_budget_is_at_most_the_models_own() -> None:
    model = OfferedModel("m", ModelSettings(context_length=2048, max_output_tokens=100))
    assert [exact(p, model=model).max_tokens for p in (10, 2000)] == [100, 48]
    assert exact(10, 500, model).max_tokens == 500
    assert estimated("hi", model=model) == Budget(100, prompt_estimate(say("hi")))


def test_without_a_count_what_surely_fits_needs_no_second_look() -> None:
    for text in ("hi", "驿站" * 50, "x" * 1000):
        found = estimated(text)
        assert found.max_tokens + len(text.encode()) <= 2048
        assert not found.uncounted
    assert not estimated("hi", 1998).uncounted


def test_without_a_count_the_worker_looks_at_what_may_not_fit() -> None:
    found = estimated("word " * 1600)
    assert found.uncounted
    assert 1 <= found.max_tokens <= 2048 // 4
    assert estimated("hi", 2000) == Budget(2000, prompt_estimate(say("hi")), uncounted=True)


def test_cost_counts_the_prompt_an_eighth_and_the_output_as_far_as_it_is_likely() -> None:
    assert expected_cost(80, 1000, 50.0) == 60
    assert expected_cost(80, 10, 50.0) == 20
    assert prompt_estimate(say("x" * 400)) > 100


def test_the_mean_answer_is_measured_and_remembered() -> None:
    asked: list[str] = []
    time = [0.0]

    def stats(model: str) -> dict[str, int]:
        asked.append(model)
        if len(asked) == 3:
            raise QueueUnavailable("away")
        return {"completed": 3, "incomplete": 1, "tokens_out": 400}

    models = Models({"m": MODEL.settings}, stats, now=0, monotonic=lambda: time[0])
    assert [models.mean_output("m") for _ in range(3)] == [100, 100, 100]
    assert asked == ["m"]
    for later in (11.0, 22.0):
        time[0] = later
        assert models.mean_output("m") == 100
    assert len(asked) == 3
