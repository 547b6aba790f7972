"""A job as a chat completion, whole or in chunks, as the official SDK reads it."""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Any

from app.api import sse
from app.api.answers import dumps, error_object
from app.errors import JobFailed, PosthouseError
from app.jobs.events import Event
from app.jobs.job import JobView, Status
from app.jobs.output import Output, chat_call
from app.services.following import Ended


def render_chat(view: JobView, output: Output) -> dict[str, Any]:
    """The chat completion object of a job that has an answer.

    A job that has none yet, or never will, shows `status` and, where it failed, `error`; both are additions, and so is
    `degraded` where another model, or nobody, has answered.
    """
    body = {
        "id": view.id,
        "object": "chat.completion",
        "created": view.created_at // 1000,
        "model": view.model,
        "choices": [_choice(view, output)] if view.status.terminal else [],
        "usage": usage_of(view),
        "service_tier": view.tier,
        "system_fingerprint": None,
        "metadata": view.metadata,
        "status": view.status.value,
    }
    if view.degraded:
        body["degraded"] = True
    if view.failure is not None:
        body["error"] = {"code": view.failure.code, "message": view.failure.message}
    return body


def _choice(view: JobView, output: Output) -> dict[str, Any]:
    calls = [chat_call(call) for call in output.calls]
    message: dict[str, Any] = {"role": "assistant", "content": output.text or (None if calls else ""), "refusal": None}
    if output.reasoning:
        message["reasoning_content"] = output.reasoning
    if calls:
        message["tool_calls"] = calls
    logprobs = _logprobs(output.logprobs)
    return {"index": 0, "message": message, "finish_reason": finish_reason(view), "logprobs": logprobs}


def _logprobs(entries: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return None if entries is None else {"content": entries, "refusal": None}


def finish_reason(view: JobView) -> str | None:
    """The engine's reason, or None where the answer broke off."""
    return view.result["finish_reason"] if view.result is not None else None


def usage_of(view: JobView) -> dict[str, Any] | None:
    """Tokens in chat's spelling, or None before the end."""
    used = (view.result or {}).get("usage")
    if not used:
        return None
    return {
        "prompt_tokens": used["input_tokens"],
        "completion_tokens": used["output_tokens"],
        "total_tokens": used["input_tokens"] + used["output_tokens"],
        "prompt_tokens_details": {"cached_tokens": used["cached_tokens"]},
        "completion_tokens_details": {"reasoning_tokens": used["reasoning_tokens"]},
    }


def failure_of(view: JobView) -> JobFailed:
    """Why there is no answer, as an error."""
    if view.failure is not None:
        return JobFailed(view.failure.code, view.failure.message)
    if view.status is Status.CANCELLED:
        return JobFailed("cancelled", "the job was cancelled before its end")
    return JobFailed("server_error", "the job ended without an answer")


# Events that have a chunk: text, reasoning, the beginning of a call and its arguments.
_SHOWN = frozenset({"delta", "r_delta", "call", "args"})


def _piece(call: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [call]}


class ChatChunks:
    """Renders a job's events as chat chunks: role first, finish reason last, then usage where asked for, `[DONE]`.

    Args:
        view: the job; its id and time stand in every chunk.
        include_usage: as `stream_options.include_usage`.
    """

    def __init__(self, view: JobView, *, include_usage: bool) -> None:
        self._head = (
            f'{{"id":{json.dumps(view.id)},"object":"chat.completion.chunk","created":{view.created_at // 1000},'
            f'"model":{json.dumps(view.model)},'
        )
        self._tail = ',"usage":null}' if include_usage else "}"
        self._before = f'data: {self._head}"choices":[{{"index":0,"delta":{{"content":'
        self._after = f'}},"logprobs":null,"finish_reason":null}}]{self._tail}\n\n'
        self._include_usage = include_usage
        self._begun = False
        self._call = -1  # the number of the call that was begun last

    def events(self, batch: list[Event]) -> str:
        """The frames of a batch; most events of the log have none in chat."""
        return "".join([self._frame(e.body) for e in batch if e.body["k"] in _SHOWN])

    def _frame(self, body: dict[str, Any]) -> str:
        if body["k"] == "delta" and "l" not in body:
            frame = f"{self._before}{encode_basestring(body['x'])}{self._after}"
        else:
            frame = self._chunk(self._delta(body), None, body.get("l"))
        return frame if self._begun else self._role() + frame

    def _delta(self, body: dict[str, Any]) -> dict[str, Any]:
        match body["k"]:
            case "delta":
                return {"content": body["x"]}
            case "r_delta":
                return {"reasoning_content": body["x"]}
            case "call":
                self._call += 1
                begun = {"name": body["name"], "arguments": ""}
                return _piece({"index": self._call, "id": body["id"], "type": "function", "function": begun})
            case _:
                return _piece({"index": self._call, "function": {"arguments": body["x"]}})

    def _role(self) -> str:
        self._begun = True
        return self._chunk({"role": "assistant", "content": ""}, None)

    def ended(self, end: Ended) -> str:
        """The last frames: of an answer, or of a failure."""
        view = end.view
        if view.status not in {Status.COMPLETED, Status.INCOMPLETE}:
            return self.broken(failure_of(view))
        frames = "" if self._begun else self._role()
        frames += self._chunk({}, finish_reason(view), degraded=view.degraded)
        if self._include_usage:
            frames += sse.data(f'{self._head}"choices":[],"usage":{dumps(usage_of(view))}}}')
        return frames + sse.DONE

    def _chunk(
        self,
        delta: dict[str, Any],
        finish: str | None,
        logprobs: list[dict[str, Any]] | None = None,
        *,
        degraded: bool = False,
    ) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": _logprobs(logprobs), "finish_reason": finish}
        addition = ',"degraded":true' if degraded else ""
        return sse.data(f'{self._head}"choices":[{dumps(choice)}]{addition}{self._tail}')

    @staticmethod
    def broken(error: PosthouseError) -> str:
        """The last frame of a stream that cannot go on; the SDK raises on it."""
        return sse.data(dumps({"error": error_object(error)}))
