"""Whoever hangs up wants the answer no more, unless it can be asked for again."""

from __future__ import annotations

import time

import httpx
import openai

from tests.integration.api.conftest import House
from tests.support.waiting import wait_until

CHAT = {"model": "m", "messages": [{"role": "user", "content": "tokens=2 hold_at=1"}]}


def chat_id(response: httpx.Response) -> str:
    for line in response.iter_lines():
        if '"id":"' in line:
            return line.split('"id":"')[1].split('"')[0]
    raise AssertionError("no chunk came")


def running(house: House) -> set[str]:
    return set(house.redis.client().zrange("ph:running", 0, -1))


def job_state(house: House, job_id: str) -> dict[str, str]:
    return house.redis.client().hgetall(f"ph:job:{job_id}")


def test_a_stream_that_is_dropped_cancels_its_job_within_two_seconds(house: House) -> None:
    with house.api.http() as http:
        with http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
            job_id = chat_id(response)
        dropped = time.monotonic()
        state = wait_until(lambda: (s := job_state(house, job_id))["status"] and s, what="the job ends", limit=10)
        assert time.monotonic() - dropped < 2
        assert (state["status"], state["error_code"]) == ("cancelled", "client_disconnected")
        generation = state["gen"]
        wait_until(lambda: generation in house.worker.lost, what="the worker stops")
        assert http.get(f"/v1/chat/completions/{job_id}").json()["error"]["code"] == "client_disconnected"


def open_streams(house: House) -> int:
    with house.api.http() as http:
        lines = http.get("/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith("posthouse_open_streams ")).split()[1]))


def test_a_waiting_call_that_is_dropped_cancels_its_job(house: House) -> None:
    before = running(house)
    with house.api.http(timeout=1) as http:
        try:
            http.post("/v1/responses", json={"model": "m", "input": "hold", "metadata": {"waits": "1"}})
        except httpx.TimeoutException:
            pass
        else:
            raise AssertionError("the job should have been held")
    wait_until(lambda: not running(house) - before, what="the held generation ends", limit=10)


def test_a_streaming_call_with_an_idempotency_key_runs_on(house: House) -> None:
    with house.api.http() as http:
        headers = {"Idempotency-Key": "hang-up-1"}
        with http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}, headers=headers) as response:
            job_id = chat_id(response)
        wait_until(lambda: not open_streams(house), what="the API has noticed")
        assert job_state(house, job_id)["status"] == ""
        house.worker.go_on.set()
        wait_until(lambda: http.get(f"/v1/chat/completions/{job_id}").json()["status"] == "completed", what="the end")
        house.worker.go_on.clear()
        again = http.post("/v1/chat/completions", json={**CHAT, "stream": True}, headers=headers)
        assert (again.headers["x-posthouse-replayed"], job_id in again.text) == ("true", True)


def test_a_background_job_outlives_those_who_follow_it(house: House) -> None:
    sdk: openai.OpenAI = house.sdk()
    made = sdk.responses.create(model="m", input="tokens=2 hold_at=1", background=True)
    stream = sdk.responses.retrieve(made.id, stream=True)
    next(stream)
    stream.close()
    wait_until(lambda: not open_streams(house), what="the API has noticed")
    assert sdk.responses.retrieve(made.id).status == "in_progress"
    sdk.responses.cancel(made.id)
