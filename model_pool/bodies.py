"""Request bodies in the OpenAI protocol with vLLM's additions (`vllm/entrypoints/openai/*/protocol.py`, 0.32)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from model_pool.errors import EngineCannotContinue

if TYPE_CHECKING:
    from model_pool.exchange import Continuation, EngineRequest

# Fields of the chat endpoint that `/v1/completions` does not know or means otherwise. None of them can be of use
# there: output under tools and logprobs are not continued.
_CHAT_ONLY = frozenset({
    "tools", "tool_choice", "parallel_tool_calls", "logprobs", "top_logprobs", "max_completion_tokens",
    "reasoning_effort", "include_reasoning",
})  # fmt: skip
_STOP_STAYS = "include_stop_str_in_output"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Which of vLLM's additions an engine understands; a field that it does not know may make it refuse.

    Attributes:
        token_ids: `return_token_ids`, and token ids as a prompt on `/v1/completions`.
        stop_in_output: `include_stop_str_in_output`.
        continue_message: `continue_final_message` and `add_generation_prompt`.
        cache_salt: `cache_salt`.
    """

    token_ids: bool = True
    stop_in_output: bool = True
    continue_message: bool = True
    cache_salt: bool = True


PLAIN = Dialect(token_ids=False, stop_in_output=False, continue_message=False, cache_salt=False)


def body_of(request: EngineRequest, dialect: Dialect) -> tuple[str, dict[str, Any]]:
    """The path and the JSON body that ask for this attempt, streamed.

    Raises:
        EngineCannotContinue: the attempt continues an answer and the engine can only begin one.
        ValueError: the attempt continues by ids and says no `max_tokens` (the endpoint's default is 16).
    """
    continued = request.continuation
    if not dialect.stop_in_output and _STOP_STAYS in request.params:
        request = replace(request, params={k: v for k, v in request.params.items() if k != _STOP_STAYS})
    if continued is not None and continued.by_ids and dialect.token_ids:
        return "/v1/completions", _completion(request, continued) | _additions(request, dialect)
    return "/v1/chat/completions", _chat(request, dialect) | _additions(request, dialect)


def _completion(request: EngineRequest, continued: Continuation) -> dict[str, Any]:
    params = {name: value for name, value in request.params.items() if name not in _CHAT_ONLY}
    budget = request.params.get("max_completion_tokens", params.get("max_tokens"))
    if budget is None:
        raise ValueError("an answer that is continued by token ids needs max_tokens")
    prompt = [*continued.prompt_token_ids, *continued.token_ids]
    return {**params, "model": request.model, "prompt": prompt, "max_tokens": budget}


def _chat(request: EngineRequest, dialect: Dialect) -> dict[str, Any]:
    messages: list[Any] = list(request.messages)
    body = {**request.params, "model": request.model, "messages": messages}
    if request.continuation is None or not request.continuation.text:
        return body
    if not dialect.continue_message:
        raise EngineCannotContinue
    messages.append({"role": "assistant", "content": request.continuation.text})
    return {**body, "continue_final_message": True, "add_generation_prompt": False}


def _additions(request: EngineRequest, dialect: Dialect) -> dict[str, Any]:
    added: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    if dialect.token_ids:
        added["return_token_ids"] = True
    if dialect.stop_in_output and request.params.get("stop"):
        added[_STOP_STAYS] = True
    if dialect.cache_salt and request.cache_salt:
        added["cache_salt"] = request.cache_salt
    return added
