"""Mistakes in the fields that both endpoints have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.bad_inputs.request import CHAT, RESPONSES, Bad, chat, respond, shown

# Fields of both endpoints: name, values that are none.
_WRONG: dict[str, list[Any]] = {
    "model": [None, 7, "", [], {}, "x" * 257, True],
    "stream": ["true", 1, []],
    "store": ["no", 0],
    "metadata": [
        [], "x", {"a": 1}, {"a": None}, {"a": {"b": "c"}}, {"k" * 65: "v"}, {"k": "v" * 513},
        {str(n): "v" for n in range(17)},
    ],
    "temperature": [-0.1, 2.1, "1", True, [], 10**400, 1e308],
    "top_p": [0, -1, 1.01, "x"],
    "stop": [7, "", [""], ["a", ""], [1], ["a"] * 5, "x" * 10_000, {}, [["a"]]],
    "seed": [1.5, "1", 2**64, -(2**64), True],
    "service_tier": ["vip", 1, ""],
    "user": [7, "x" * 513, []],
    "safety_identifier": [7, "x" * 513],
    "prompt_cache_key": [7, "x" * 513],
    "deadline_seconds": [0, -1, 10**6, "10", True],
    "top_k": [5, 1.5, "1", -2],
    "min_p": [2, "x"],
    "repetition_penalty": [0, "x"],
    "min_tokens": [-1, 1.5],
    "ignore_eos": ["x", 1],
}  # fmt: skip
_NEVER = (
    "priority", "request_id", "cache_salt", "kv_transfer_params", "chat_template", "chat_template_kwargs", "documents",
    "add_generation_prompt", "continue_final_message", "prompt_logprobs", "use_beam_search", "prompt",
    "prompt_token_ids", "best_of", "__proto__", "", "m\u200bodel",
)  # fmt: skip
BUDGETS: list[Any] = [0, -5, 1.5, "10", True, [], {}]


def common() -> Iterator[Bad]:
    """The same mistake at both endpoints."""
    for path, make in ((CHAT, chat), (RESPONSES, respond)):
        for name, values in _WRONG.items():
            for value in values:
                yield Bad(f"{name}={shown(value)}", "POST", path, make(**{name: value}), name)
        for name in _NEVER:
            yield Bad(f"unknown {name}", "POST", path, make(**{name: "1"}), name)
        for name in ("nobody", "paced\n", " paced", "../paced", "PACED", "驿站", "paced:0"):
            body = make(model=name)
            yield Bad(f"model {name!r}", "POST", path, body, "model", 404, "model_not_found")
        yield Bad("no model", "POST", path, {k: v for k, v in make().items() if k != "model"}, "model")
        for size in (9000, 2**31, 10**12):
            body = make(**{budget(path): size})
            yield Bad(f"context {size}", "POST", path, body, budget(path), code="context_length_exceeded")
        said = "messages" if path == CHAT else "input"
        for number in (9000, 500_000):  # the second is refused before anybody counts it
            text = "w " * number
            words = {said: [{"role": "user", "content": text}] if path == CHAT else text}
            name = f"a prompt of {number} words"
            yield Bad(name, "POST", path, make(**words), said, code="context_length_exceeded")
            both = make(**words, **{budget(path): 10**6})
            yield Bad(f"{name} and a budget", "POST", path, both, said, code="context_length_exceeded")


def budget(path: str) -> str:
    return "max_tokens" if path == CHAT else "max_output_tokens"
