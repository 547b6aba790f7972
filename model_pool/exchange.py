"""What goes to an engine and what comes back: frozen records, no HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Continuation:
    """The part of an answer that another attempt has sent already.

    Attributes:
        prompt_token_ids: the prompt as the engine tokenised it. Without it, and without `token_ids`, the answer is
            continued by its text.
        token_ids: ids of the tokens sent, those left out whose text had not come out yet (half characters).
        text: the text sent.
    """

    prompt_token_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    text: str = ""

    @property
    def by_ids(self) -> bool:
        """Whether the ids are known, which alone continues without any divergence."""
        return bool(self.prompt_token_ids and self.token_ids)


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One attempt at a generation.

    Attributes:
        model: the name under which the engine serves the model.
        messages: chat messages in OpenAI's form.
        params: the engine's own fields, already checked against its allow-list. `max_tokens` is what this attempt may
            still emit, not the whole budget.
        request_id: goes into the engine's log; ASCII.
        continuation: what has been sent already, or None.
        cache_salt: separates this tenant's entries in the engine's prefix cache.
    """

    model: str
    messages: tuple[Mapping[str, Any], ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    request_id: str = ""
    continuation: Continuation | None = None
    cache_salt: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens counted by the engine; `prompt_tokens` of a continued answer hold those emitted before."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event of an engine's stream.

    Attributes:
        text: new text; it may lag its tokens.
        token_ids: new tokens; empty when the engine gives none.
        prompt_token_ids: on one chunk of the stream, if the engine gives them.
        finish_reason: `stop`, `length`, `tool_calls`, … on the last chunk with text.
        stop_reason: the stop string or token that ended the answer.
        usage: on the last chunk of all, if the engine gives it.
        tool_calls: raw deltas of OpenAI's form.
        reasoning: new text of the reasoning.
        logprobs: entries of the new tokens in chat's form, values as the engine gives them, NaN included.
    """

    text: str = ""
    token_ids: tuple[int, ...] = ()
    prompt_token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    usage: Usage | None = None
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    reasoning: str = ""
    logprobs: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_progress(self) -> bool:
        """Whether the engine has worked since the chunk before: a role or a count alone is no token."""
        return bool(self.text or self.token_ids or self.finish_reason or self.reasoning or self.tool_calls)


@dataclass(frozen=True, slots=True)
class Stats:
    """Generations of a server since it began, where it counts them."""

    started: int
    finished: int
    aborted: int
    in_flight: int
