"""Only answers that would come out the same, or that somebody is content with, are served again."""

from __future__ import annotations

import pytest

from cache.policy import Why, judge


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"temperature": 0}, Why.TEMPERATURE),
        ({"temperature": 0.0}, Why.TEMPERATURE),
        ({"temperature": 0.7, "seed": 7}, Why.SEED),
        ({"seed": 0}, Why.SEED),
    ],
)
def test_determinism_that_was_asked_for_is_cacheable(params: dict, why: Why) -> None:
    judgement = judge(params, "deterministic")
    assert (judgement.cacheable, judgement.why) == (True, why)


@pytest.mark.parametrize(
    "params", [{}, {"temperature": None}, {"temperature": 0.01}, {"temperature": 1}, {"seed": None}, {"top_p": 0}]
)
def test_what_samples_or_does_not_say_is_not(params: dict) -> None:
    judgement = judge(params, "deterministic")
    assert (judgement.cacheable, judgement.why) == (False, Why.SAMPLED)


@pytest.mark.parametrize("params", [{}, {"temperature": 1}])
def test_operator_or_client_may_be_content_with_any_good_answer(params: dict) -> None:
    assert judge(params, "all").why is Why.ALL
    assert judge(params, "deterministic", opted_in=True).why is Why.OPTED_IN
    assert judge(params, "all").cacheable
    assert judge(params, "deterministic", opted_in=True).cacheable


def test_off_is_the_last_word() -> None:
    judgement = judge({"temperature": 0, "seed": 1}, "off", opted_in=True)
    assert (judgement.cacheable, judgement.why) == (False, Why.OFF)


def test_logprobs_are_never_kept_and_so_never_missing() -> None:
    assert judge({"temperature": 0, "logprobs": True}, "all", opted_in=True).why is Why.LOGPROBS
    assert judge({"temperature": 0, "logprobs": False}, "deterministic").cacheable
