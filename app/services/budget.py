"""How long a prompt may be and how much an answer may hold, decided before anything is queued.

Exact where this host can count the model's tokens. Elsewhere from bounds: what surely fits goes on as it is, what
surely does not is refused, and the rest is marked for the worker, which asks its engine before it uses a place of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import ContextLengthExceeded
from app.services.models import OfferedModel

_CHARS_PER_TOKEN = 4
# The longest tokens of the large vocabularies are runs of 128 spaces, so a longer prompt cannot fit.
_MOST_CHARS_PER_TOKEN = 128
_MESSAGE_OVERHEAD = 8
# What a chat template may put around a message, a system prompt of its own included.
_MOST_OVERHEAD = 48


@dataclass(frozen=True)
class Budget:
    """Tokens of a request.

    Attributes:
        max_tokens: what the answer may have.
        prompt_tokens: of the prompt, for the line and the limits; an estimate where nobody has counted.
        uncounted: the worker has to look whether both fit, because nobody could here.
    """

    max_tokens: int
    prompt_tokens: int
    uncounted: bool = False


def prompt_chars(messages: Iterable[Mapping[str, Any]]) -> int:
    """Characters of all text in the messages."""
    return sum(len(m.get("content") or "") for m in messages)


def prompt_estimate(messages: list[dict[str, Any]]) -> int:
    """Tokens of a prompt, roughly: a quarter of its characters and something for each message's frame."""
    return prompt_chars(messages) // _CHARS_PER_TOKEN + _MESSAGE_OVERHEAD * len(messages)


def refuse_hopeless(model: OfferedModel, messages: list[dict[str, Any]], asked: int | None, *, param: str) -> None:
    """The cheap look before anything is counted: a prompt that no tokenizer could make fit.

    Raises:
        ContextLengthExceeded: see `too_long`.
    """
    limit, least = model.settings.context_length, _least(messages)
    if least >= limit:
        raise too_long(limit, least, asked, param=param, counted=False)


def _least(messages: list[dict[str, Any]]) -> int:
    return max(1, prompt_chars(messages) // _MOST_CHARS_PER_TOKEN)


def exact_budget(model: OfferedModel, prompt: int, asked: int | None, *, prompt_param: str, param: str) -> Budget:
    """The budget behind a prompt of `prompt` tokens: what was asked for, else the model's setting within what is left.

    Raises:
        ContextLengthExceeded: see `too_long`.
    """
    limit = model.settings.context_length
    if prompt + (asked or 1) > limit:
        raise too_long(limit, prompt, asked, param=param if prompt < limit else prompt_param)
    left = limit - prompt
    return Budget(min(left, model.settings.max_output_tokens or left) if asked is None else asked, prompt)


def estimated_budget(model: OfferedModel, messages: list[dict[str, Any]], asked: int | None, *, param: str) -> Budget:
    """The budget where nobody could count.

    Raises:
        ContextLengthExceeded: it cannot fit whatever the tokenizer says.
    """
    limit, least = model.settings.context_length, _least(messages)
    if least + (asked or 1) > limit:
        raise too_long(limit, least, asked, param=param, counted=False)
    prompt = prompt_estimate(messages)
    # No tokenizer makes more tokens than bytes.
    surely_left = limit - sum(len((m.get("content") or "").encode()) + _MOST_OVERHEAD for m in messages)
    if asked is not None:
        return Budget(asked, prompt, uncounted=asked > surely_left)
    open_budget = max(1, surely_left, min(limit - prompt, limit // 4))
    return Budget(min(open_budget, model.settings.max_output_tokens or limit), prompt, uncounted=surely_left < 1)


def too_long(
    limit: int, prompt: int, asked: int | None, *, param: str | None, counted: bool = True
) -> ContextLengthExceeded:
    """The error that names the limit, the prompt's tokens and the requested ones.

    Args:
        limit: tokens of prompt and answer together.
        prompt: tokens of the prompt.
        asked: tokens asked for as output, or None.
        param: the field at fault, in the wire's spelling: the prompt's where that alone is too long.
        counted: whether `prompt` is its exact number or the least that it can be.
    """
    wanted = "at least 1 token" if asked is None else f"{asked} tokens"
    has = str(prompt) if counted else f"at least {prompt}"
    return ContextLengthExceeded(
        f"the model's context holds {limit} tokens, but the prompt has {has} tokens and {wanted} of output are "
        "requested; shorten the prompt or lower the budget",
        param=param,
    )


def expected_cost(prompt_tokens: int, budget: int, mean_output: float) -> float:
    """Cost of a generation in the line's unit, tokens: prompt / 8 + expected output."""
    return prompt_tokens / 8 + min(budget, mean_output)
