"""What the fields of requests mean, in a sentence each; types and bounds come from the models themselves."""

from __future__ import annotations

from typing import Any

ABOUT = {
    "model": "one of `GET /v1/models`",
    "messages": "the conversation; content is text or text parts",
    "input": "a text, or items: messages, calls of functions and their outputs",
    "instructions": "a system message for this response only",
    "stream": "events as they come",
    "stream_options": "`include_usage`: a last chunk with the usage",
    "background": "answer at once; poll, stream or be told later",
    "store": "`false`: keep it for minutes only",
    "metadata": "labels of your own, which the list can be filtered by",
    "previous_response_id": "go on from this response",
    "temperature": "0: the likeliest answer, which may come from the cache",
    "top_p": "sample among the likeliest tokens of this share",
    "top_k": "sample among so many tokens; where the engine can",
    "min_p": "leave out tokens less likely than this share of the best; where the engine can",
    "presence_penalty": "above 0: rather speak of something new",
    "frequency_penalty": "above 0: rather not repeat words",
    "repetition_penalty": "above 1: rather not repeat tokens; where the engine can",
    "stop": "the answer ends before any of these",
    "seed": "the same seed, the same answer, as far as the engine can",
    "min_tokens": "the answer has at least so many; where the engine can",
    "max_tokens": "the most tokens that the answer may have",
    "max_completion_tokens": "the same, and counts where both are given",
    "max_output_tokens": "the most tokens that the answer may have",
    "ignore_eos": "for benchmarks: answers of exactly the budget (scope admin)",
    "n": "only 1",
    "service_tier": "how urgent; at most what the key may have",
    "deadline_seconds": "the job ends when it has not ended by then",
    "user": "whose request it is, for client tokens",
    "safety_identifier": "the same, where `user` is not given",
    "prompt_cache_key": "echoed",
    "tools": "functions that the model may call; where the engine can",
    "tool_choice": "a mode, or the function that must be called",
    "parallel_tool_calls": "whether several calls may stand in one answer",
    "response_format": "JSON, or JSON under a schema; where the engine can",
    "text": "`format`: JSON, or JSON under a schema; where the engine can",
    "reasoning": "how much to reason; where the engine can",
    "reasoning_effort": "how much to reason; where the engine can",
    "logprobs": "log-probabilities of the answer's tokens",
    "top_logprobs": "and of so many likely ones for each",
    "include": "log-probabilities of the answer's tokens",
    "webhook": "where its end is told",
    "models": "the only models that it may use; by default those of the key",
    "expires_in": "seconds",
}


def described(schema: dict[str, Any]) -> dict[str, Any]:
    """A request's schema, each field with its sentence."""
    properties = {
        name: {**field, "description": ABOUT[name]} if name in ABOUT else field
        for name, field in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}
