"""How long a prompt may be and how much an answer may hold, estimated without a tokenizer.

Estimates only: the worker counts exactly and refuses what does not fit before it uses a place of its instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.errors import ContextLengthExceeded
from app.services.models import OfferedModel

_CHARS_PER_TOKEN = 4
# No tokenizer packs ordinary text this densely, so a longer prompt cannot fit.
_MOST_CHARS_PER_TOKEN = 64
_MESSAGE_OVERHEAD = 8
# What a chat template may put around a message, a system prompt of its own included.
_MOST_OVERHEAD = 48


def prompt_chars(messages: Iterable[Mapping[str, Any]]) -> int:
    """Characters of all text in the messages."""
    return sum(len(m.get("content") or "") for m in messages)


def prompt_estimate(messages: list[dict[str, Any]]) -> int:
    """Tokens of a prompt, roughly: a quarter of its characters and something for each message's frame."""
    return prompt_chars(messages) // _CHARS_PER_TOKEN + _MESSAGE_OVERHEAD * len(messages)


def answer_budget(model: OfferedModel, messages: list[dict[str, Any]], asked: int | None, *, param: str) -> int:
    """The answer's `max_tokens`: what was asked for, else the model's setting, else what the prompt leaves.

    Raises:
        ContextLengthExceeded: it cannot fit whatever the tokenizer says; names the limit, the prompt's least number of
            tokens and the requested ones.
    """
    limit = model.settings.context_length
    least = max(1, prompt_chars(messages) // _MOST_CHARS_PER_TOKEN)
    if least + (asked or 1) > limit:
        raise ContextLengthExceeded(_too_long(model.name, limit, least, asked), param=param if least < limit else None)
    if asked is not None:
        return asked
    left = _surely_left(limit, messages)
    return min(left, model.settings.max_output_tokens or left)


def _surely_left(limit: int, messages: list[dict[str, Any]]) -> int:
    """Tokens that certainly fit behind the prompt, as no tokenizer makes more tokens than bytes.

    A prompt that could fill the context at that rate is taken at a usual rate instead, and a quarter of the context is
    kept free of it.
    """
    most = sum(len((m.get("content") or "").encode()) for m in messages) + _MOST_OVERHEAD * len(messages)
    usual = min(limit - prompt_estimate(messages), limit // 4)
    return max(1, limit - most, usual)


def _too_long(model: str, limit: int, least: int, asked: int | None) -> str:
    wanted = "at least 1 token" if asked is None else f"{asked} tokens"
    return (
        f"the context of model {model!r} holds {limit} tokens, but the prompt has at least {least} tokens and "
        f"{wanted} of output are requested; shorten the prompt or lower the budget"
    )


def expected_cost(prompt_tokens: int, budget: int, mean_output: float) -> float:
    """Cost of a generation in the line's unit, tokens: prompt / 8 + expected output."""
    return prompt_tokens / 8 + min(budget, mean_output)
