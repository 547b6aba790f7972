"""Objects and frames as the official SDK's own types read them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from app.api.render_chat import ChatChunks, render_chat
from app.api.render_events import ResponseEvents
from app.api.render_response import render_response
from app.errors import ServerError
from app.jobs.events import Event
from app.jobs.job import JobFailure, Kind, Status
from app.services.following import Ended
from tests.unit.services.test_following import JOB

USAGE = {"input_tokens": 2, "output_tokens": 3, "cached_tokens": 1, "reasoning_tokens": 0}
DONE = replace(
    JOB, status=Status.COMPLETED, ended_at=5000, attempts=2,
    result={"text": "a b", "finish_reason": "stop", "usage": USAGE, "tool_calls": []},
)  # fmt: skip
CHAT = replace(DONE, id="chatcmpl-1", kind=Kind.CHAT)
ALWAYS = {
    "id", "object", "created_at", "model", "status", "output", "parallel_tool_calls", "tool_choice", "tools",
    "background", "error", "incomplete_details", "usage", "metadata", "service_tier", "previous_response_id",
    "completed_at", "cache", "attempts", "degraded",
}  # fmt: skip


def log(*kinds: str) -> list[Event]:
    return [Event(n, {"k": kind} | ({"x": f"w{n}"} if kind == "delta" else {})) for n, kind in enumerate(kinds)]


def data_of(frames: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in frames.splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize("status", list(Status))
def test_every_status_gives_an_object_that_the_sdk_takes_strictly(status: Status) -> None:
    failure = JobFailure("server_error", "gone") if status is Status.FAILED else None
    body = render_response(replace(JOB, status=status, failure=failure, position=3), "partial")
    assert set(body) >= ALWAYS
    parsed = Response.model_validate(body)
    assert parsed.status == status.value
    assert ("queue" in body) == (status is Status.QUEUED)
    assert (parsed.error is not None) == (status is Status.FAILED)


def test_a_hang_up_is_named_as_the_reason_of_a_cancelled_response() -> None:
    gone = replace(JOB, status=Status.CANCELLED, failure=JobFailure("client_disconnected", ""))
    body = render_response(gone)
    assert (body["incomplete_details"], body["error"]) == ({"reason": "client_disconnected"}, None)


def test_usage_adds_up_in_both_spellings() -> None:
    assert render_response(DONE, "a b")["usage"]["total_tokens"] == 5
    chat = ChatCompletion.model_validate(render_chat(CHAT, "a b"))
    assert (chat.usage.total_tokens, chat.usage.prompt_tokens_details.cached_tokens) == (5, 1)


def test_resumed_events_are_the_same_bytes_as_the_first_time() -> None:
    events = log(
        "created", "queued", "in_progress", "item", "part", "delta", "delta", "text_done", "part_done", "item_done"
    )
    whole = ResponseEvents(JOB).events(events) + ResponseEvents(JOB).ended(Ended(DONE, 10))
    for after in range(10):
        renderer = ResponseEvents(JOB, after=after)
        rest = renderer.events(events) + renderer.ended(Ended(DONE, 10))
        assert whole.endswith(rest)
        assert data_of(rest)[0]["sequence_number"] == after + 1


def test_a_stream_that_joins_late_shows_the_states_of_back_then() -> None:
    frames = data_of(ResponseEvents(DONE).events(log("created", "queued", "in_progress")))
    assert [f["response"]["status"] for f in frames] == ["queued", "queued", "in_progress"]
    assert {f["response"]["usage"] for f in frames} == {None}


def test_an_unknown_event_in_the_log_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="mystery"):
        ResponseEvents(JOB).events([Event(0, {"k": "mystery"})])


def test_chunks_are_what_the_sdk_takes_strictly() -> None:
    chunks = ChatChunks(CHAT, include_usage=True)
    frames = chunks.events(log("created", "queued", "item", "delta", "delta")) + chunks.ended(Ended(CHAT, 9))
    parsed = [ChatCompletionChunk.model_validate(body) for body in data_of(frames)]
    assert [c.choices[0].delta.content for c in parsed[:-1]] == ["", "w3", "w4", None]
    assert parsed[-1].usage.completion_tokens == 3
    assert frames.endswith("data: [DONE]\n\n")


def test_an_answer_without_a_token_still_has_role_and_reason() -> None:
    frames = data_of(ChatChunks(CHAT, include_usage=False).ended(Ended(CHAT, 9)))
    assert [f["choices"][0]["delta"].get("role") for f in frames] == ["assistant", None]
    assert frames[-1]["choices"][0]["finish_reason"] == "stop"
    assert "usage" not in frames[-1]


def test_a_broken_stream_says_so_in_each_endpoints_way() -> None:
    assert data_of(ChatChunks(CHAT, include_usage=False).broken(ServerError("x")))[0]["error"]["code"] == "server_error"
    renderer = ResponseEvents(JOB)
    renderer.events(log("created"))
    frame = renderer.broken(ServerError("x"))
    assert (data_of(frame)[0]["type"], data_of(frame)[0]["sequence_number"]) == ("error", 1)
    assert "id:" not in frame


def test_text_that_could_break_frames_does_not() -> None:
    nasty = 'a\n\ndata: {"x"}\r\u2028"\\'
    for renderer in (ChatChunks(CHAT, include_usage=False), ResponseEvents(JOB)):
        frames = renderer.events([Event(0, {"k": "delta", "x": nasty})])
        last = json.loads(frames.rstrip("\n").split("\ndata: ")[-1])
        assert nasty in {last.get("delta"), (last.get("choices") or [{}])[0].get("delta", {}).get("content")}
