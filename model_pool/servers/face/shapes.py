"""The two endpoints' answers on the wire, field for field where vLLM 0.32 puts them.

Chat: `prompt_token_ids` stands beside `choices` (first chunk), completions: inside the choice (first chunk).
`token_ids` stands inside the choice of every chunk. What is the same in all chunks of a stream is encoded once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from model_pool.servers.face.ask import Ask
    from model_pool.servers.face.speaker import Delta


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _event(value: Any) -> bytes:
    return b"data: " + _dump(value) + b"\n\n"


class Shape(Protocol):
    """How one endpoint writes one answer."""

    def opening(self) -> bytes:
        """What goes out together with the first token, before it."""
        ...

    def chunk(self, delta: Delta) -> bytes:
        """One SSE event."""
        ...

    def closing(self, completion_tokens: int, reasoning_tokens: int = 0) -> bytes:
        """What follows the last token; the first number holds the second."""
        ...

    def whole(self, deltas: Sequence[Delta]) -> dict[str, Any]:
        """The answer that is not streamed; at least one delta."""
        ...


class _Shape:
    kind: str
    chunk_kind: str
    prefix: str

    def __init__(self, ask: Ask, model: str, request_id: str, created: int) -> None:
        self._ask = ask
        self._base = {
            "id": f"{self.prefix}-{request_id}",
            "object": self.chunk_kind,
            "created": created,
            "model": model,
        }
        self._head = b"data: " + _dump(self._base)[:-1] + b',"choices":[{"index":0,'

    def closing(self, completion_tokens: int, reasoning_tokens: int = 0) -> bytes:
        done = b"data: [DONE]\n\n"
        if not self._ask.include_usage:
            return done
        return _event({**self._base, "choices": [], "usage": self._usage(completion_tokens, reasoning_tokens)}) + done

    def _usage(self, completion: int, reasoning: int) -> dict[str, Any]:
        prompt = len(self._ask.prompt_ids)
        usage = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
        return {**usage, "completion_tokens_details": {"reasoning_tokens": reasoning}} if reasoning else usage

    def _prompt_ids(self) -> list[int] | None:
        return list(self._ask.prompt_ids) if self._ask.token_ids else None

    def _tail(self, delta: Delta) -> bytes:
        ids = ",".join(map(str, delta.token_ids))
        shown = f"[{ids}]" if self._ask.token_ids else "null"
        if delta.finish_reason is None:
            return f',"logprobs":{self._logprobs(delta)},"finish_reason":null,"token_ids":{shown}}}]}}\n\n'.encode()
        why = f'"finish_reason":"{delta.finish_reason}","stop_reason":{json.dumps(delta.stop_reason)}'
        return f',"logprobs":{self._logprobs(delta)},{why},"token_ids":{shown}}}]}}\n\n'.encode()

    @staticmethod
    def _logprobs(delta: Delta) -> str:
        return json.dumps({"content": delta.logprobs}) if delta.logprobs else "null"

    def _whole(self, choice: dict[str, Any], deltas: Sequence[Delta]) -> dict[str, Any]:
        last, ids = deltas[-1], [i for delta in deltas for i in delta.token_ids]
        logprobs = [entry for delta in deltas for entry in delta.logprobs]
        end = {"finish_reason": last.finish_reason, "stop_reason": last.stop_reason}
        shown = {
            "logprobs": {"content": logprobs} if logprobs else None,
            "token_ids": ids if self._ask.token_ids else None,
        }
        return {
            **self._base,
            "object": self.kind,
            "choices": [{"index": 0, **choice, **end, **shown}],
            "usage": self._usage(len(ids), sum(len(delta.token_ids) for delta in deltas if delta.reasoning)),
        }


class ChatShape(_Shape):
    """`/v1/chat/completions`."""

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"
    prefix = "chatcmpl"

    def opening(self) -> bytes:
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return _event({**self._base, "choices": [choice], "prompt_token_ids": self._prompt_ids()})

    def chunk(self, delta: Delta) -> bytes:
        if delta.reasoning or delta.tool_calls:
            return self._head + b'"delta":' + _dump(_special(delta)) + self._tail(delta)
        return self._head + b'"delta":{"content":' + json.dumps(delta.text).encode() + b"}" + self._tail(delta)

    def whole(self, deltas: Sequence[Delta]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(delta.text for delta in deltas)}
        reasoning, calls = "".join(delta.reasoning for delta in deltas), joined_calls(deltas)
        message |= {"reasoning": reasoning or None} | ({"tool_calls": calls} if calls else {})
        return {**self._whole({"message": message}, deltas), "prompt_token_ids": self._prompt_ids()}


def _special(delta: Delta) -> dict[str, Any]:
    """VLLM's names (`entrypoints/generate/base/protocol.py`, DeltaMessage)."""
    return {"reasoning": delta.reasoning} if delta.reasoning else {"tool_calls": delta.tool_calls}


def joined_calls(deltas: Sequence[Delta]) -> list[dict[str, Any]]:
    """The calls of tools that a run of deltas adds up to."""
    calls: dict[int, dict[str, Any]] = {}
    for piece in (piece for delta in deltas for piece in delta.tool_calls):
        call = calls.setdefault(piece["index"], {**piece, "function": {**piece["function"], "arguments": ""}})
        call["function"]["arguments"] += piece["function"]["arguments"]
    return [{name: value for name, value in call.items() if name != "index"} for call in calls.values()]


class CompletionShape(_Shape):
    """`/v1/completions`."""

    kind = "text_completion"
    chunk_kind = "text_completion"
    prefix = "cmpl"

    def __init__(self, ask: Ask, model: str, request_id: str, created: int) -> None:
        super().__init__(ask, model, request_id, created)
        self._first = b',"prompt_token_ids":' + _dump(self._prompt_ids())

    def opening(self) -> bytes:
        return b""

    def chunk(self, delta: Delta) -> bytes:
        first, self._first = self._first, b""
        return self._head + b'"text":' + json.dumps(delta.text).encode() + first + self._tail(delta)

    def whole(self, deltas: Sequence[Delta]) -> dict[str, Any]:
        text = "".join(delta.text for delta in deltas)
        return self._whole({"text": text, "prompt_token_ids": self._prompt_ids()}, deltas)
