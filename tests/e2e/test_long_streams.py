"""A stream may be silent for long and last for long: it stays open, unbuffered, and readable by every client."""

from __future__ import annotations

import itertools
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.events import counting, frames, numbers, text
from tests.support.waiting import wait_until

STREAM = {"model": "paced", "stream": True}


def test_a_silent_stream_shows_signs_of_life_that_no_client_takes_for_an_event(stack, client):
    prompt = "{{ttft=2500 tpot=700 tokens=4}}"
    with stack.open("POST", "/v1/responses", {**STREAM, "input": prompt}) as response:
        assert response.getheader("x-accel-buffering") == "no"
        assert response.getheader("cache-control") == "no-cache"
        seen = list(frames(response))

    gaps = [after.at - before.at for before, after in itertools.pairwise(seen)]
    assert max(gaps) < 1.5, "the stream was silent for too long"
    assert sum(1 for frame in seen if frame.comment) >= 4
    assert all(frame.data for frame in seen if frame.event)
    assert [int(f.id) for f in seen if f.event] == list(range(sum(1 for f in seen if f.event)))

    events = list(client.responses.create(model="paced", input=prompt, stream=True))
    assert text(events) == counting(4)
    chunks = list(
        client.chat.completions.create(model="paced", messages=[{"role": "user", "content": prompt}], stream=True)
    )
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == counting(4)


def test_tokens_arrive_when_they_are_made(stack):
    with stack.open("POST", "/v1/responses", {**STREAM, "input": "{{ttft=200 tpot=300 tokens=8}}"}) as response:
        came = [frame.at for frame in frames(response) if frame.event == "response.output_text.delta"]
    due = [came[0] + 0.3 * n for n in range(8)]
    assert len(came) == 8
    assert max(abs(at - when) for at, when in zip(came, due, strict=True)) < 1.0


def test_streams_of_a_stopping_api_are_finished(house):
    home = house()
    api = home.api()
    home.worker()
    client = home.client()
    with ThreadPoolExecutor(4) as threads:
        streams = [client.responses.create(**STREAM, input="{{tokens=60 tpot=50}}") for _ in range(4)]
        for stream in streams:
            next(stream)
        reading = [threads.submit(numbers, stream) for stream in streams]
        assert api.terminate() == 0
        seen = [future.result() for future in reading]
    assert seen == [list(range(1, len(seen[0]) + 1))] * 4
    assert "caller_hung_up" not in api.text()


def test_streams_beyond_the_grace_end_with_an_error_and_go_on_elsewhere(house):
    home = house('[models.paced]\nengine = "paced"\n[api]\ngraceful_seconds = 4\n')
    api = home.api()
    home.worker()
    events = []
    with home.open(
        "POST", "/v1/responses", {**STREAM, "background": True, "input": "{{tokens=200 tpot=50}}"}
    ) as response:
        stream = frames(response)
        events.append(next(f for f in stream if f.event))
        api.signal(signal.SIGTERM)
        events += [frame for frame in stream if frame.data]
    assert api.wait(20) == 0
    assert (events[-1].event, events[-1].body["code"]) == ("error", "unavailable")
    job_id = events[0].body["response"]["id"]
    last = max(int(f.id) for f in events if f.id)

    home.api()
    rest = list(home.client().responses.retrieve(job_id, stream=True, starting_after=last))
    assert numbers(rest)[0] == last + 1
    assert rest[-1].type == "response.completed"
    assert rest[-1].response.output_text == counting(200)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_stream_lasts_through_45_silent_seconds_and_a_minute_of_tokens(house):
    """With the settings that everybody has, beyond gunicorn's timeout of 30 s and the SDK's patience."""
    home = house()
    home.api()
    home.worker()
    with ThreadPoolExecutor(1) as thread:
        health = thread.submit(_health_for, home, 100)
        stream = home.client(timeout=60).responses.create(**STREAM, input="{{ttft=45000 tpot=1000 tokens=60}}")
        came = [time.monotonic() for event in stream if event.type == "response.output_text.delta"]
        assert health.result() < 1.0
    assert len(came) == 60
    assert max(abs(at - came[0] - n) for n, at in enumerate(came)) < 1.0


def _health_for(home, seconds: float) -> float:
    """The slowest health check of that time."""
    slowest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        assert home.get("/healthz")[0] == 200
        slowest = max(slowest, time.monotonic() - began)
        next_look = began + 1
        wait_until(lambda at=next_look: time.monotonic() > at, what="a second passes")
    return slowest
