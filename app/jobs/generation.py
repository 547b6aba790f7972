"""A generation: what a GPU does for one or more jobs. Pure records."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

# Marks a budget that nobody could hold against the context when the job was accepted: the worker counts the prompt
# first. "asked" was asked for, so it fits or the job is refused; "open" was not, so it is lowered to what the prompt
# leaves. No engine's allow-list has the field, so none gets it.
UNCOUNTED = "uncounted"


def new_generation_id() -> str:
    """A fresh id, 128 random bits: `gen_…`."""
    return "gen_" + secrets.token_hex(16)


@dataclass(frozen=True)
class CanonicalRequest:
    """What the engine is asked, the same whichever endpoint it came from.

    Attributes:
        messages: chat messages as the engine's chat template takes them.
        params: sampling parameters and other engine fields from the written allow-list; `max_tokens` is always there.
    """

    messages: list[dict[str, Any]]
    params: dict[str, Any]

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, non-ASCII kept. Equal requests give equal texts."""
        body = {"messages": self.messages, "params": self.params}
        return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> CanonicalRequest:
        body = json.loads(text)
        return cls(messages=body["messages"], params=body["params"])

    @property
    def continuable(self) -> bool:
        """Whether another worker may continue a half-streamed answer.

        Not under a grammar, not with tools, logprobs or presence/frequency/repetition penalties: their state is
        in the engine and would differ after the seam.
        """
        bound = ("response_format", "tools", "logprobs", "presence_penalty", "frequency_penalty", "repetition_penalty")
        return not any(self.params.get(name) for name in bound)


@dataclass(frozen=True)
class Dispatch:
    """How a model's work is handed out.

    Attributes:
        policy: whose turn it is: round_robin or least_loaded.
        fallbacks: models that take the work while no instance of its own is healthy, each with its budget.
        busy_reply: the answer when nobody can take it; empty for none.
        busy_after: seconds of waiting until then.
    """

    policy: str = "round_robin"
    fallbacks: tuple[tuple[str, int], ...] = ()
    busy_reply: str = ""
    busy_after: float = 0


_IN_TURN = Dispatch()


@dataclass(frozen=True)
class NewGeneration:
    """A generation about to stand in line.

    Attributes:
        cost: in tokens: prompt / 8 + expected output.
        join: digest under which identical requests share it while it is in flight; empty: it is nobody else's.
        cache: where a good answer is to be kept (see `app.services.cached_answers`), opaque here; empty for nowhere.
    """

    id: str
    request: CanonicalRequest
    cost: float
    revision: str = ""
    join: str = ""
    cache: str = ""
    dispatch: Dispatch = _IN_TURN


@dataclass(frozen=True)
class Usage:
    """Tokens of a whole generation; the input is counted once however many attempts it took."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def to_dict(self) -> dict[str, int]:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "reasoning_tokens": self.reasoning_tokens,
        }


@dataclass(frozen=True)
class Result:
    """What a finished run produced.

    Attributes:
        text: what the messages say.
        finish_reason: the engine's: stop, length, tool_calls.
        tool_calls: in chat's form.
        items: stored forms of `output.Item`, where the answer is more than one message without log-probabilities.
    """

    text: str
    finish_reason: str
    usage: Usage
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        body = {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "usage": self.usage.to_dict(),
            "tool_calls": self.tool_calls,
        }
        return {**body, "items": self.items} if self.items else body

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Claim:
    """A worker's right to run a generation, valid while its fencing token is.

    Attributes:
        fence: the token; every write carries it, and a stale one writes nothing.
        sequence: the next free number of the event log.
        prompt_token_ids: the prompt's ids as an earlier attempt saw them, for continuing; empty when unknown.
        resumed: an earlier attempt has run; its output, if any, is in the log.
    """

    generation: str
    fence: int
    attempts: int
    sequence: int
    now: int
    deadline_at: int
    request: CanonicalRequest
    tenant: str
    prompt_token_ids: tuple[int, ...]
    resumed: bool
    continuable: bool
    cache: str = ""
