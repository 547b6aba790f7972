"""From the data of one event to a chunk, for both endpoints.

Where vLLM 0.32 puts its ids: `prompt_token_ids` beside `choices` (chat) or inside the choice (completions), on the
first chunk; `token_ids` inside the choice of each chunk. Other engines leave them out.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from model_pool.errors import EngineBroken, failure_of
from model_pool.exchange import Chunk, Usage

DONE = b"[DONE]"
_STREAMING = 200


def chunk_of(data: bytes) -> Chunk:
    """Read one event that is not `[DONE]`.

    Raises:
        EngineFailure: the event is an error object, or no event of such a stream (EngineBroken).
    """
    try:
        event = from_json(data)  # a fifth of what json.loads takes, and there is one for every token
        if event.get("error"):
            raise failure_of(_STREAMING, event)
        return _chunk(event)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise EngineBroken("the engine's stream holds something that is no chunk of an answer") from None


def _chunk(event: dict[str, Any]) -> Chunk:
    usage = _usage(event["usage"]) if event.get("usage") else None
    if not event["choices"]:
        return Chunk(usage=usage)
    choice = event["choices"][0]
    delta = choice.get("delta") or {}
    prompt = event.get("prompt_token_ids") or choice.get("prompt_token_ids")
    return Chunk(
        text=delta.get("content") or choice.get("text") or "",
        token_ids=tuple(choice.get("token_ids") or ()),
        prompt_token_ids=tuple(prompt) if prompt else None,
        finish_reason=choice.get("finish_reason"),
        stop_reason=choice.get("stop_reason"),
        usage=usage,
        tool_calls=tuple(delta.get("tool_calls") or ()),
        reasoning=delta.get("reasoning") or delta.get("reasoning_content") or "",
        logprobs=_logprobs(choice),
    )


def _logprobs(choice: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    found = choice.get("logprobs")
    return tuple(found.get("content") or ()) if isinstance(found, dict) else ()


def _usage(usage: dict[str, Any]) -> Usage:
    return Usage(
        prompt_tokens=usage.get("prompt_tokens") or 0,
        completion_tokens=usage.get("completion_tokens") or 0,
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        reasoning_tokens=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0,
    )
