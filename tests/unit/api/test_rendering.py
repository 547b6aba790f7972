"""Objects and frames as the official SDK's own types read them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from app.api.render_chat import ChatChunks, render_chat
from app.api.render_events import ResponseEvents
from app.api.render_response import render_response
from app.errors import ServerError
from app.jobs.events import Event
from app.jobs.job import JobFailure, Kind, Status
from app.jobs.output import CALL, MESSAGE, REASONING, Item, Output, from_events
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


def said(text: str) -> Output:
    return Output((Item(MESSAGE, text),))


def log(*kinds: str) -> list[Event]:
    return [Event(n, {"k": kind} | ({"x": f"w{n}"} if kind == "delta" else {})) for n, kind in enumerate(kinds)]


def data_of(frames: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in frames.splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize("status", list(Status))
def test_every_status_gives_an_object_that_the_sdk_takes_strictly(status: Status) -> None:
    failure = JobFailure("server_error", "gone") if status is Status.FAILED else None
    body = render_response(replace(JOB, status=status, failure=failure, position=3), said("partial"))
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
    assert render_response(DONE, said("a b"))["usage"]["total_tokens"] == 5
    chat = ChatCompletion.model_validate(render_chat(CHAT, said("a b")))
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


LOGPROBS = [{"token": "yes", "logprob": None, "bytes": [1], "top_logprobs": []}]
PARTS = [
    {"k": "created"}, {"k": "queued"}, {"k": "in_progress"},
    {"k": "r_item"}, {"k": "r_delta", "x": "h"}, {"k": "r_delta", "x": "m"}, {"k": "r_done"}, {"k": "r_item_done"},
    {"k": "item"}, {"k": "part"}, {"k": "delta", "x": "yes", "l": LOGPROBS},
    {"k": "text_done"}, {"k": "part_done"}, {"k": "item_done"},
    {"k": "call", "id": "c1", "name": "f"}, {"k": "args", "x": "{"}, {"k": "args", "x": "}"},
    {"k": "args_done"}, {"k": "call_done"},
    {"k": "call", "id": "c2", "name": "g"}, {"k": "args_done"}, {"k": "call_done"},
]  # fmt: skip
LOG = [Event(n, body) for n, body in enumerate(PARTS)]
ITEMS = [item.to_dict() for item in from_events(LOG).items]
WITH_PARTS = replace(DONE, result={**DONE.result, "text": "yes", "finish_reason": "tool_calls", "items": ITEMS})


def test_reasoning_and_calls_are_events_that_the_sdk_takes_strictly() -> None:
    renderer = ResponseEvents(JOB)
    frames = data_of(renderer.events(LOG) + renderer.ended(Ended(WITH_PARTS, len(LOG))))
    assert [f["sequence_number"] for f in frames] == list(range(len(LOG) + 1))
    for frame in frames:
        loose = json.loads(json.dumps(frame).replace('"logprob": null', '"logprob": -1'))
        TypeAdapter(ResponseStreamEvent).validate_python(loose)
    assert [f.get("output_index") for f in frames[3:-1]] == [0] * 5 + [1] * 6 + [2] * 5 + [3] * 3
    ids = {(f.get("item_id") or f["item"]["id"]) for f in frames[3:-1]}
    assert len(ids) == 4
    done = {f["type"]: f for f in frames if f["type"].endswith(".done")}
    assert done["response.reasoning_text.done"]["text"] == "hm"
    assert [f["arguments"] for f in frames if f["type"] == "response.function_call_arguments.done"] == ["{}", ""]


def test_items_of_the_stream_are_those_of_the_final_object() -> None:
    renderer = ResponseEvents(JOB)
    frames = data_of(renderer.events(LOG) + renderer.ended(Ended(WITH_PARTS, len(LOG))))
    whole = [f["item"] for f in frames if f["type"] == "response.output_item.done"]
    assert whole == frames[-1]["response"]["output"]
    assert [item["type"] for item in whole] == ["reasoning", "message", "function_call", "function_call"]


def test_resuming_within_any_item_gives_the_same_bytes() -> None:
    whole = ResponseEvents(JOB).events(LOG)
    for after in range(len(LOG) - 1):
        assert whole.endswith(ResponseEvents(JOB, after=after).events(LOG))


def test_an_answer_that_broke_off_keeps_its_items_the_last_one_incomplete() -> None:
    failed = replace(JOB, status=Status.FAILED, failure=JobFailure("worker_lost", "gone"))
    items = render_response(failed, from_events(LOG[:11]))["output"]
    assert [(item["type"], item["status"]) for item in items] == [("reasoning", "completed"), ("message", "incomplete")]


def test_chat_has_reasoning_calls_and_log_probabilities_whole_and_in_chunks() -> None:
    chat = replace(WITH_PARTS, id="chatcmpl-1", kind=Kind.CHAT)
    whole = render_chat(chat, from_events(LOG))
    [choice] = whole["choices"]
    chunks = ChatChunks(chat, include_usage=False)
    frames = data_of(chunks.events(LOG) + chunks.ended(Ended(chat, len(LOG))))
    deltas = [f["choices"][0]["delta"] for f in frames]
    for frame in frames:
        ChatCompletionChunk.model_validate(json.loads(json.dumps(frame).replace('"logprob": null', '"logprob": -1')))
    assert "".join(d.get("reasoning_content", "") for d in deltas) == choice["message"]["reasoning_content"] == "hm"
    pieces = [piece for d in deltas for piece in d.get("tool_calls", ())]
    assert [(p["index"], p.get("id")) for p in pieces] == [(0, "c1"), (0, None), (0, None), (1, "c2")]
    assert [c["function"]["arguments"] for c in choice["message"]["tool_calls"]] == ["{}", ""]
    assert choice["finish_reason"] == frames[-1]["choices"][0]["finish_reason"] == "tool_calls"
    shown = [f["choices"][0]["logprobs"] for f in frames if f["choices"][0]["logprobs"]]
    assert shown == [choice["logprobs"]]
    assert choice["logprobs"]["content"][0]["logprob"] is None


def test_a_call_without_text_has_no_content() -> None:
    output = Output((Item(REASONING, "hm"), Item(CALL, "{}", "c", "f")))
    message = render_chat(CHAT, output)["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == (None, "hm")
