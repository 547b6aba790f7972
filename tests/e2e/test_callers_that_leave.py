"""Nobody waits for the answer: the engine stops within 2 s. Somebody will come back for it: it does not."""

from __future__ import annotations

import time
from contextlib import suppress

from tests.support import processes
from tests.support.events import counting, named
from tests.support.waiting import wait_until

LONG = "{{tokens=2000 tpot=20}}"
CHAT = {"model": "paced", "messages": [{"role": "user", "content": LONG}]}


def in_flight(stack) -> int:
    return sum(processes.engine_counts(stack.socket(slot=slot))["in_flight"] for slot in range(3))


def aborted(stack) -> int:
    return sum(processes.engine_counts(stack.socket(slot=slot))["aborted"] for slot in range(3))


def assert_stopped(stack, before: int) -> None:
    wait_until(lambda: in_flight(stack) == 0, what="the engine stops generating", limit=2)
    assert aborted(stack) == before + 1
    wait_until(lambda: all(i["in_flight"] == 0 for i in stack.pool()), what="the place is free", limit=5)


def test_hanging_up_a_stream_stops_the_engine(stack, client, receiver):
    before = aborted(stack)
    stream = client.responses.create(
        model="paced", input=LONG, stream=True, extra_body={"webhook": {"url": receiver.url()}}
    )
    events = [next(stream) for _ in range(8)]
    stream.close()

    assert_stopped(stack, before)
    job = stack.ended(events[0].response.id)
    assert job["status"] == "cancelled"
    wait_until(lambda: receiver.received, what="the webhook comes")
    assert [b'"type":"response.cancelled"' in r.body for r in receiver.received] == [True]
    assert cancelled_because(stack, job["id"]) == "client_disconnected"


def test_hanging_up_a_chat_stream_stops_the_engine(stack, client):
    before = aborted(stack)
    stream = client.chat.completions.create(**CHAT, stream=True)
    chunks = [next(stream) for _ in range(3)]
    stream.close()

    assert_stopped(stack, before)
    assert cancelled_because(stack, chunks[0].id) == "client_disconnected"


def test_hanging_up_a_waiting_call_stops_the_engine(stack):
    for path, body in (("/v1/responses", {"model": "paced", "input": LONG}), ("/v1/chat/completions", CHAT)):
        before = aborted(stack)
        with suppress(TimeoutError), stack.open("POST", path, body, timeout=1.0):
            raise AssertionError("this answer takes 40 s")
        assert_stopped(stack, before)


def test_hanging_up_before_the_first_token_stops_the_engine(stack):
    before = aborted(stack)
    body = {"model": "paced", "input": "{{hang=60}}", "stream": True}
    with stack.open("POST", "/v1/responses", body) as response:
        assert next(named(response)).event == "response.created"
        wait_until(lambda: in_flight(stack) == 1, what="the engine has it")
    assert_stopped(stack, before)


def test_hanging_up_while_waiting_in_line_leaves_the_line(stack, client):
    fillers = [client.responses.create(model="paced", input=LONG, background=True) for _ in range(24)]
    for job in fillers:
        stack.reaches(job.id, "in_progress")
    stream = client.responses.create(model="paced", input="never said", stream=True)
    job_id = next(stream).response.id
    stream.close()
    wait_until(lambda: stack.job(job_id)["status"] == "cancelled", what="the job is cancelled", limit=2)
    for job in fillers:
        client.responses.cancel(job.id)
    assert stack.job(job_id)["attempts"] == 0


def test_others_go_on_while_one_hangs_up(stack, client):
    others = [client.responses.create(model="paced", input="{{tokens=80 tpot=20}}", background=True) for _ in range(6)]
    stream = client.responses.create(model="paced", input=LONG, stream=True)
    for _ in range(6):
        next(stream)
    stream.close()
    assert [stack.text_of(stack.ended(job.id)) for job in others] == [counting(80)] * 6


def test_a_background_job_runs_on_when_its_reader_goes(stack, client):
    stream = client.responses.create(model="paced", input="{{tokens=100 tpot=20}}", background=True, stream=True)
    job_id = next(stream).response.id
    stream.close()
    plain = stack.submit("{{tokens=100 tpot=20}}")["id"]  # nobody reads, nobody polls
    assert [stack.ended(each)["status"] for each in (job_id, plain)] == ["completed", "completed"]


def test_a_keyed_stream_runs_on_and_is_the_same_job_again(stack):
    body = {"model": "paced", "input": "{{tokens=60 tpot=20}}", "stream": True}
    key = {"Idempotency-Key": f"stream-{time.time()}"}
    with stack.open("POST", "/v1/responses", body, **key) as response:
        job_id = next(named(response)).body["response"]["id"]
    with stack.open("POST", "/v1/responses", body, **key) as response:
        again = list(named(response))
    assert again[0].body["response"]["id"] == job_id
    assert again[-1].event == "response.completed"
    assert [int(f.id) for f in again] == list(range(len(again)))


def test_hanging_up_what_was_cancelled_already_is_harmless(stack, client):
    before = aborted(stack)
    stream = client.responses.create(model="paced", input=LONG, stream=True)
    job_id = next(stream).response.id
    stack.reaches(job_id, "in_progress")
    client.responses.cancel(job_id)
    stream.close()
    client.responses.cancel(job_id)
    assert_stopped(stack, before)
    assert stack.job(job_id)["status"] == "cancelled"


def cancelled_because(stack, job_id: str) -> str:
    return stack.redis().hget(f"ph:job:{job_id}", "error_code")
