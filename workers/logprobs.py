"""Log-probabilities as engines give them, made fit for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

# OpenAI's own value for a token that is very unlikely, which vLLM uses too.
FLOOR = -9999.0


def clean(entries: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Entries in chat's form: minus infinity is the floor, what is no number at all is null."""
    return tuple({**_one(entry), "top_logprobs": _all(entry.get("top_logprobs"))} for entry in entries)


def _all(entries: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    return [_one(entry) for entry in entries or ()]


def _one(entry: Mapping[str, Any]) -> dict[str, Any]:
    token = str(entry.get("token") or "")
    spelled = entry.get("bytes")
    return {
        "token": token,
        "logprob": _value(entry.get("logprob")),
        "bytes": list(token.encode("utf-8", "replace")) if spelled is None else list(spelled),
    }


def _value(value: Any) -> float | None:
    if not isinstance(value, int | float) or math.isnan(value) or value == math.inf:
        return None
    return max(float(value), FLOOR)
