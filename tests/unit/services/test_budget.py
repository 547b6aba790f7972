"""Estimates of prompts and budgets: what surely does not fit is refused, what nobody asked for fits."""

from __future__ import annotations

import pytest

from app.errors import ContextLengthExceeded, QueueUnavailable
from app.services.budget import answer_budget, expected_cost, prompt_estimate
from app.services.models import Models, OfferedModel
from app.settings import ModelSettings

MODEL = OfferedModel("m", ModelSettings(context_length=2048))


def say(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def budget(text: str, asked: int | None = None, model: OfferedModel = MODEL) -> int:
    return answer_budget(model, say(text), asked, param="max_tokens")


@pytest.mark.parametrize(("text", "asked"), [("hi", 2048), ("hi", 10**9), ("x" * 200_000, None), ("x" * 130_000, 100)])
def test_what_cannot_fit_is_refused_with_all_numbers(text: str, asked: int | None) -> None:
    with pytest.raises(ContextLengthExceeded, match="holds 2048 tokens") as caught:
        budget(text, asked)
    assert "at least" in caught.value.message


def test_a_budget_that_was_asked_for_is_kept() -> None:
    assert (budget("hi", 2047), budget("hi", 1)) == (2047, 1)


def test_an_open_budget_fits_whatever_the_tokenizer() -> None:
    for text in ("hi", "驿站" * 50, "x" * 1000):
        assert budget(text) + len(text.encode()) <= 2048
    assert 1 <= budget("word " * 1600) <= 2048 // 4


def test_an_open_budget_is_the_models_own_where_it_has_one() -> None:
    model = OfferedModel("m", ModelSettings(context_length=2048, max_output_tokens=100))
    assert (budget("hi", model=model), budget("hi", 500, model)) == (100, 500)


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
