"""A generation request as our own servers understand it: the two endpoints' bodies, checked as vLLM checks them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from model_pool.servers.face import sampling
from model_pool.servers.face.errors import Refused
from model_pool.servers.face.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from model_pool.servers.face.tokenizer import Tokenizer

_COMPLETION_BUDGET = 16  # what /v1/completions gives when nobody asks for more


@dataclass(frozen=True)
class Ask:
    """One request for tokens.

    `budget` is the largest number of tokens to send, None for whatever the context leaves. `logprobs` says whether
    each token comes with its log-probability, and with those of `top_logprobs` tokens in its place.
    """

    prompt_ids: tuple[int, ...]
    budget: int | None
    stream: bool = False
    include_usage: bool = False
    token_ids: bool = False
    stops: tuple[str, ...] = ()
    include_stop: bool = False
    ignore_eos: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    logprobs: bool = False
    top_logprobs: int = 0


def from_chat(body: Mapping[str, Any], tokenizer: Tokenizer) -> Ask:
    """The body of `/v1/chat/completions`.

    Raises:
        Refused: a field is missing or wrong (400).
    """
    prompt = tokenizer.render(
        body.get("messages"),
        generation_prompt=bool(body.get("add_generation_prompt", not body.get("continue_final_message"))),
        continue_final=bool(body.get("continue_final_message")),
    )
    budget = _natural(body, "max_completion_tokens")
    return _ask(body, prompt, budget if budget is not None else _natural(body, "max_tokens"))


def from_completion(body: Mapping[str, Any], tokenizer: Tokenizer) -> Ask:
    """The body of `/v1/completions`; the prompt is text, token ids, or a list with one of them.

    Raises:
        Refused: a field is missing or wrong (400).
    """
    budget = _natural(body, "max_tokens")
    return _ask(body, prompt_ids(body.get("prompt"), tokenizer), _COMPLETION_BUDGET if budget is None else budget)


def prompt_ids(prompt: Any, tokenizer: Tokenizer) -> list[int]:
    """The token ids of a completion's prompt.

    Raises:
        Refused: it is neither text nor token ids, or several prompts at once (400).
    """
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return tokenizer.encode(prompt)
    if isinstance(prompt, list) and prompt and all(type(token_id) is int and token_id >= 0 for token_id in prompt):
        return prompt
    raise Refused(400, "prompt must be text or a list of token ids, and one prompt only", param="prompt")


def _ask(body: Mapping[str, Any], prompt: list[int], budget: int | None) -> Ask:
    if body.get("n") not in (None, 1):
        raise Refused(400, "this server gives one choice only", param="n")
    return Ask(
        prompt_ids=tuple(prompt),
        budget=budget,
        stream=bool(body.get("stream")),
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        token_ids=bool(body.get("return_token_ids")),
        stops=_stops(body.get("stop")),
        include_stop=bool(body.get("include_stop_str_in_output")),
        ignore_eos=bool(body.get("ignore_eos")),
        sampling=sampling.from_body(body),
        logprobs=body.get("logprobs") is True,  # on /v1/completions it is a number, and not offered
        top_logprobs=_natural(body, "top_logprobs", least=0) or 0,
    )


def _stops(stop: Any) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(one, str) and one for one in stops):
        raise Refused(400, "stop cannot contain an empty string.", param="stop")
    return tuple(stops)


def _natural(body: Mapping[str, Any], name: str, *, least: int = 1) -> int | None:
    value = body.get(name)
    if value is not None and (type(value) is not int or value < least):
        raise Refused(400, f"{name} must be at least {least}, got {value}.", param=name)
    return value
