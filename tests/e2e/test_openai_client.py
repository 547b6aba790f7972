"""The official SDK, unchanged, against a running stack: poll, stream, resume, cancel, chat."""

from __future__ import annotations

import itertools

import openai
import pytest

from tests.support import processes
from tests.support.door import KEY
from tests.support.events import chat_text, counting, numbers, text
from tests.support.stack import Stack
from tests.support.waiting import wait_until

SLOW = "{{tokens=400 tpot=50}}"


def test_a_background_answer_is_polled(stack, client):
    job = client.responses.create(model="paced", input="two horses wait", background=True)
    assert job.status == "queued"
    assert job.background is True

    job = wait_until(
        lambda: (now := client.responses.retrieve(job.id)).status == "completed" and now, what="the job completes"
    )

    assert job.output_text == "two horses wait"
    assert job.usage.output_tokens == 3
    assert job.usage.total_tokens == job.usage.input_tokens + 3
    assert job.error is None


def test_a_job_is_queued_with_its_rank_until_a_place_is_free(stack, client):
    fillers = [client.responses.create(model="paced", input=SLOW, background=True) for _ in range(24)]
    for job in fillers:
        stack.reaches(job.id, "in_progress", limit=60)
    waiting = [client.responses.create(model="paced", input=f"waiting {n}", background=True) for n in range(2)]
    try:
        seen = [stack.job(job.id) for job in waiting]
        assert [job["status"] for job in seen] == ["queued", "queued"]
        assert [job["queue"]["position"] for job in seen] == [0, 1]
    finally:
        for job in fillers:
            client.responses.cancel(job.id)
    assert [stack.ended(job.id)["status"] for job in waiting] == ["completed", "completed"]


def test_a_poll_may_wait_for_the_end(stack):
    job = stack.submit("{{tokens=20 tpot=20}}")
    status, body = stack.get(f"/v1/responses/{job['id']}?wait=20")
    assert (status, body["status"]) == (200, "completed")

    job = stack.submit("{{tokens=20 tpot=20}}")
    status, body = stack.get(f"/v1/responses/{job['id']}", Prefer="wait=20")
    assert (status, body["status"]) == (200, "completed")


def test_a_waiting_call_gives_the_answer_itself(client):
    answer = client.responses.create(model="paced", input="at once", instructions="be brief", metadata={"k": "v"})
    assert (answer.status, answer.output_text, answer.metadata) == ("completed", "at once", {"k": "v"})


def test_a_stream_has_the_standard_events_in_their_order(client):
    events = list(client.responses.create(model="paced", input="one two three", stream=True))

    assert numbers(events) == list(range(len(events)))
    assert [kind for kind, _ in itertools.groupby(event.type for event in events)] == [
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert text(events) == "one two three"
    assert events[-1].response.output_text == "one two three"
    assert len({event.response.id for event in events if hasattr(event, "response")}) == 1


def test_a_stream_is_resumed_from_its_middle(stack, client):
    stream = client.responses.create(model="paced", input="{{tokens=60 tpot=20}}", background=True, stream=True)
    before = list(itertools.takewhile(lambda event: event.sequence_number < 15, stream))
    stream.close()
    job_id = before[0].response.id

    after = list(client.responses.retrieve(job_id, stream=True, starting_after=before[-1].sequence_number))

    assert numbers(before) + numbers(after) == list(range(len(before) + len(after)))
    assert text(before) + text(after) == counting(60)
    assert after[-1].type == "response.completed"


def test_an_ended_stream_is_read_again_from_anywhere(stack, client):
    job_id = stack.submit("{{tokens=10}}")["id"]
    stack.ended(job_id)

    whole = list(client.responses.retrieve(job_id, stream=True, starting_after=0))
    with client.responses.stream(response_id=job_id, starting_after=5) as stream:
        through_helper = [event.sequence_number for event in stream]
    rest = list(client.responses.retrieve(job_id, stream=True, starting_after=numbers(whole)[-2]))

    assert numbers(whole)[0] == 1
    assert through_helper == [number for number in numbers(whole) if number > 5]
    assert [event.type for event in rest] == ["response.completed"]


def test_many_readers_follow_one_job(stack, client):
    job_id = stack.submit("{{tokens=40 tpot=20}}")["id"]
    streams = [client.responses.retrieve(job_id, stream=True, starting_after=n) for n in (0, 3, 0, 3)]
    assert {text(stream) for stream in streams} == {counting(40)}


def test_cancelling_stops_the_engine(stack: Stack, client):
    before = stack.generations()["aborted"]
    job = client.responses.create(model="paced", input=SLOW, background=True)
    stack.reaches(job.id, "in_progress")

    assert client.responses.cancel(job.id).status == "cancelled"

    sockets = [stack.socket(slot=slot) for slot in range(3)]
    wait_until(
        lambda: sum(processes.engine_counts(s)["in_flight"] for s in sockets) == 0, what="the engine stops", limit=2
    )
    wait_until(lambda: stack.generations()["aborted"] == before + 1, what="the pool shows the abort", limit=5)
    assert client.responses.cancel(job.id).status == "cancelled"  # idempotent
    assert stack.generations()["aborted"] == before + 1


def test_a_cancelled_stream_ends_as_incomplete_with_its_status(stack, client):
    stream = client.responses.create(model="paced", input=SLOW, background=True, stream=True)
    events = []
    for event in stream:
        events.append(event)
        if event.sequence_number == 8:
            client.responses.cancel(events[0].response.id)

    assert events[-1].type == "response.incomplete"
    assert events[-1].response.status == "cancelled"
    assert numbers(events) == list(range(len(events)))


def test_cancelling_an_ended_job_answers_it_as_it_is(stack, client):
    job_id = stack.submit("done")["id"]
    stack.ended(job_id)
    assert client.responses.cancel(job_id).status == "completed"


def test_chat_waits_for_its_answer(client):
    done = client.chat.completions.create(model="paced", messages=[{"role": "user", "content": "a b c"}])
    assert done.id.startswith("chatcmpl-")
    assert done.choices[0].message.content == "a b c"
    assert done.choices[0].finish_reason == "stop"
    assert done.usage.completion_tokens == 3


def test_chat_stops_at_its_budget(client):
    done = client.chat.completions.create(
        model="paced", messages=[{"role": "user", "content": "{{tokens=50}}"}], max_completion_tokens=7
    )
    assert done.choices[0].message.content == counting(7)
    assert done.choices[0].finish_reason == "length"


def test_chat_streams_role_first_and_reason_last(client):
    chunks = list(
        client.chat.completions.create(model="paced", messages=[{"role": "user", "content": "a b c"}], stream=True)
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chat_text(chunks) == "a b c"
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["stop"]
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)


def test_chat_streams_usage_only_when_asked(client):
    chunks = list(
        client.chat.completions.create(
            model="paced",
            messages=[{"role": "user", "content": "a b c"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 3
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_chat_streams_end_with_done(stack):
    body = {"model": "paced", "messages": [{"role": "user", "content": "a"}], "stream": True}
    answer = stack.ask("POST", "/v1/chat/completions", body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.body.endswith(b"data: [DONE]\n\n")


def test_stop_strings_end_the_answer_and_are_not_shown(client):
    done = client.chat.completions.create(
        model="paced", messages=[{"role": "user", "content": "{{tokens=50}}"}], stop=["12 13"]
    )
    assert done.choices[0].message.content == counting(11) + " "


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["paced"]
    assert client.models.retrieve("paced").id == "paced"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_a_repeated_submit_with_its_key_is_the_same_job(stack):
    headers = {"Idempotency-Key": "once-only"}
    body = {"model": "paced", "input": "only once", "background": True}
    first = stack.ask("POST", "/v1/responses", body, **headers)
    again = stack.ask("POST", "/v1/responses", body, **headers)
    other = stack.ask("POST", "/v1/responses", {**body, "input": "something else"}, **headers)

    assert first.json["id"] == again.json["id"]
    assert again.headers["x-posthouse-replayed"] == "true"
    assert (other.status, other.json["error"]["code"]) == (409, "idempotency_conflict")
    assert other.headers["x-should-retry"] == "false"


def test_readiness_and_liveness_need_no_key(stack):
    assert stack.get("/healthz", key=None)[0] == 200
    assert stack.get("/readyz", key=None)[0] == 200
    assert stack.get("/admin/pool", key=None)[0] == 401
    assert stack.get("/admin/pool", key=KEY)[0] == 200
