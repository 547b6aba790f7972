"""What the client sends, what it reads, and which error it takes an answer for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from model_pool import errors
from model_pool.bodies import PLAIN, Dialect, body_of
from model_pool.chunks import chunk_of
from model_pool.errors import EngineCannotContinue, failure_of
from model_pool.exchange import Chunk, Continuation, EngineRequest, Usage

MESSAGES = ({"role": "user", "content": "hi"},)
BY_IDS = Continuation(prompt_token_ids=(1, 2), token_ids=(3,), text="x")
BY_TEXT = Continuation(text="so far")


def body(dialect: Dialect | None = None, **fields: Any):
    return body_of(EngineRequest(model="m", messages=MESSAGES, **fields), dialect or Dialect())


def test_first_attempt_goes_to_chat_and_asks_for_ids():
    path, sent = body(params={"temperature": 0, "max_tokens": 5}, cache_salt="s")
    assert path == "/v1/chat/completions"
    assert sent == {
        "model": "m",
        "messages": [MESSAGES[0]],
        "temperature": 0,
        "max_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "cache_salt": "s",
    }


def test_continuation_by_ids_goes_to_completions_without_chats_own_fields():
    params = {"max_completion_tokens": 7, "logprobs": True, "tool_choice": "none", "seed": 1, "stop": ["x"]}
    path, sent = body(params=params, continuation=BY_IDS)
    assert path == "/v1/completions"
    assert sent["prompt"] == [1, 2, 3]
    assert sent["max_tokens"] == 7
    assert sent["include_stop_str_in_output"] is True
    assert sent["seed"] == 1
    assert not {"messages", "logprobs", "tool_choice", "max_completion_tokens"} & sent.keys()


def test_continuation_by_ids_needs_a_budget():
    with pytest.raises(ValueError, match="max_tokens"):
        body(continuation=BY_IDS)


@pytest.mark.parametrize(
    ("dialect", "continuation"),
    [(Dialect(), BY_TEXT), (Dialect(token_ids=False), BY_IDS)],
    ids=["no ids", "no dialect"],
)
def test_continuation_by_text_opens_the_last_message(dialect, continuation):
    path, sent = body(dialect, continuation=continuation)
    assert path == "/v1/chat/completions"
    assert sent["messages"][-1] == {"role": "assistant", "content": continuation.text}
    assert (sent["continue_final_message"], sent["add_generation_prompt"]) == (True, False)


def test_nothing_emitted_yet_is_a_first_attempt():
    _, sent = body(continuation=Continuation(prompt_token_ids=(1, 2)))
    assert "prompt" not in sent
    assert "continue_final_message" not in sent


def test_plain_dialect_sends_nothing_of_vllms():
    _, sent = body(PLAIN, params={"stop": "x", "include_stop_str_in_output": True}, cache_salt="s")
    assert sent.keys() == {"model", "messages", "stop", "stream", "stream_options"}
    with pytest.raises(EngineCannotContinue) as refusal:
        body(PLAIN, continuation=BY_TEXT)
    assert (refusal.value.code, refusal.value.fault) == ("worker_lost", False)


@pytest.mark.parametrize(
    ("event", "chunk"),
    [
        (
            {"choices": [{"delta": {"role": "assistant", "content": ""}}], "prompt_token_ids": [1, 2]},
            Chunk(prompt_token_ids=(1, 2)),
        ),
        ({"choices": [{"delta": {"content": "x"}, "token_ids": [5]}]}, Chunk(text="x", token_ids=(5,))),
        (
            {"choices": [{"text": "x", "token_ids": [5], "prompt_token_ids": [1]}]},
            Chunk(text="x", token_ids=(5,), prompt_token_ids=(1,)),
        ),
        (
            {"choices": [{"delta": {}, "finish_reason": "stop", "stop_reason": "END", "token_ids": None}]},
            Chunk(finish_reason="stop", stop_reason="END"),
        ),
        (
            {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
            Chunk(usage=Usage(3, 2)),
        ),
        (
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 3,
                    "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 1},
                    "completion_tokens_details": {"reasoning_tokens": 2},
                },
            },
            Chunk(usage=Usage(3, 2, cached_tokens=1, reasoning_tokens=2)),
        ),
        ({"choices": [{"delta": {"reasoning": "hm"}}]}, Chunk(reasoning="hm")),
        ({"choices": [{"delta": {"reasoning_content": "hm"}}]}, Chunk(reasoning="hm")),
        ({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}, Chunk(tool_calls=({"index": 0},))),
    ],
)
def test_chunks_of_both_endpoints(event, chunk):
    assert chunk_of(json.dumps(event).encode()) == chunk


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"{}", b'{"choices":[7]}', b'{"choices":{}}x', b"\xff"])
def test_what_is_no_chunk_is_a_broken_stream(data):
    with pytest.raises(errors.EngineBroken):
        chunk_of(data)


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (400, {"error": {"message": "bad", "code": 400}}, errors.EngineRefused, "invalid_prompt"),
        (
            400,
            {"error": {"message": "This model's maximum context length is 5"}},
            errors.EngineRefused,
            "context_length_exceeded",
        ),
        (422, {"detail": "no"}, errors.EngineRefused, "invalid_prompt"),
        (501, {"error": {"message": "not implemented"}}, errors.EngineRefused, "invalid_prompt"),
        (404, {"error": {"message": "The model does not exist"}}, errors.EngineServerError, None),
        (429, "slow down", errors.EngineServerError, None),
        (500, {"error": {"message": "x"}}, errors.EngineServerError, None),
        (500, "<html>", errors.EngineServerError, None),
        (500, {"error": "CUDA out of memory. Tried"}, errors.EngineOutOfMemory, None),
        (500, {"error": {"message": "torch.OutOfMemoryError"}}, errors.EngineOutOfMemory, None),
        (200, {"error": {"message": "mid-stream", "code": 400}}, errors.EngineRefused, "invalid_prompt"),
        (200, {"error": {"message": "mid-stream", "code": 500}}, errors.EngineServerError, None),
        (200, {"error": {"message": "out of memory", "code": "oom"}}, errors.EngineOutOfMemory, None),
        (200, {"error": "no code"}, errors.EngineServerError, None),
    ],
)
def test_failures_are_told_apart(status, body, kind, code):
    failure = failure_of(status, body)
    assert type(failure) is kind
    assert failure.fault is not issubclass(kind, errors.EngineRefused)
    assert getattr(failure, "code", None) == code


def test_error_in_the_stream_raises_its_failure():
    with pytest.raises(errors.EngineOutOfMemory):
        chunk_of(b'{"error":{"message":"CUDA out of memory","type":"InternalServerError","param":null,"code":500}}')
