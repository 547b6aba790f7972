"""Chat completions with the official SDK: waiting, streaming, usage, failures."""

from __future__ import annotations

import openai
import pytest

from tests.integration.api.conftest import House

ASK = {"model": "m", "messages": [{"role": "user", "content": "tokens=3"}]}


def ask(text: str) -> dict:
    return {"model": "m", "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]}


def test_a_waiting_call_gives_the_whole_answer(sdk: openai.OpenAI) -> None:
    done = sdk.chat.completions.create(**ask("tokens=3 pace=0.02"), metadata={"a": "b"})
    assert (done.choices[0].message.content, done.choices[0].finish_reason) == ("t0 t1 t2", "stop")
    assert (done.usage.prompt_tokens, done.usage.completion_tokens, done.usage.total_tokens) == (5, 7, 12)
    assert done.id.startswith("chatcmpl-")
    kept = sdk.chat.completions.retrieve(done.id)
    assert kept.to_dict() == done.to_dict()


def test_a_stream_begins_with_the_role_and_ends_with_the_reason(sdk: openai.OpenAI) -> None:
    chunks = list(sdk.chat.completions.create(**ask("tokens=3 pace=0.01"), stream=True))
    assert (chunks[0].choices[0].delta.role, chunks[0].choices[0].delta.content) == ("assistant", "")
    assert [c.choices[0].delta.content for c in chunks[1:-1]] == ["t0", " t1", " t2"]
    assert [c.choices[0].finish_reason for c in chunks] == [None] * 4 + ["stop"]
    assert (len({c.id for c in chunks}), {c.usage for c in chunks}) == (1, {None})


def test_usage_comes_only_when_asked_for_in_a_last_chunk_without_choices(sdk: openai.OpenAI) -> None:
    options = {"include_usage": True}
    *rest, last = sdk.chat.completions.create(**ask("tokens=1 length"), stream=True, stream_options=options)
    assert (last.choices, last.usage.total_tokens) == ([], 12)
    assert (rest[-1].choices[0].finish_reason, {c.usage for c in rest}) == ("length", {None})


def test_the_frames_end_with_done(house: House) -> None:
    with house.api.http() as http:
        text = http.post("/v1/chat/completions", json={**ask("tokens=1"), "stream": True}).text
    assert text.endswith("data: [DONE]\n\n")
    assert text.startswith(": position=")
    assert "event:" not in text


def test_a_failure_in_mid_stream_is_one_error_and_no_reason(house: House, sdk: openai.OpenAI) -> None:
    stream = iter(sdk.chat.completions.create(**ask("tokens=5 fail_after=2"), stream=True))
    seen = [next(stream) for _ in range(3)]
    with pytest.raises(openai.APIError) as caught:
        next(stream)
    assert caught.value.code == "worker_lost"
    assert [c.choices[0].finish_reason for c in seen] == [None] * 3
    with house.api.http() as http:
        text = http.post("/v1/chat/completions", json={**ask("tokens=5 fail_after=2"), "stream": True}).text
    assert (text.count('"error"'), "[DONE]" in text, "usage" in text) == (1, False, False)


def test_a_failure_is_an_http_error_to_who_waits(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        sdk.chat.completions.create(**ask("fail=model_unavailable"))
    assert (caught.value.status_code, caught.value.code) == (503, "model_unavailable")
    assert caught.value.response.headers["x-should-retry"] == "false"


def test_an_earlier_answer_can_be_sent_back(sdk: openai.OpenAI) -> None:
    done = sdk.chat.completions.create(**ask("tokens=1"))
    turns = [{"role": "user", "content": "a"}, done.choices[0].message, {"role": "user", "content": "tokens=2"}]
    assert sdk.chat.completions.create(model="m", messages=turns).choices[0].message.content == "t0 t1"


def test_models_are_listed_and_read(sdk: openai.OpenAI) -> None:
    assert [m.id for m in sdk.models.list()] == ["m"]
    assert sdk.models.retrieve("m").owned_by == "posthouse"
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.models.retrieve("nope")
    assert caught.value.code == "model_not_found"
