"""One bad request and the refusal that it must get, and good bodies to spoil."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RESPONSES = "/v1/responses"
CHAT = "/v1/chat/completions"
TOKENS = "/v1/client_tokens"
USER = {"role": "user", "content": "hi"}
NOBODY = f"resp_{'0' * 32}"


@dataclass(frozen=True)
class Bad:
    """One request and its refusal. `param` is the exact field, None for none."""

    name: str
    method: str
    path: str
    body: Any
    param: str | None
    status: int = 400
    code: str = "invalid_request"
    headers: dict[str, str] = field(default_factory=dict)


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "paced", "messages": [{"role": "user", "content": "hi"}], **fields}


def respond(**fields: Any) -> dict[str, Any]:
    return {"model": "paced", "input": "hi", **fields}


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 24 else f"{text[:20]}…{len(text)}"
