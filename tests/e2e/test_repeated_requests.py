"""One user action is one generation on an engine, however often and over whatever trouble it is sent again."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import psutil
import pytest

from tests.support import processes
from tests.support.waiting import wait_until

CHAT = {"model": "paced", "messages": [{"role": "user", "content": "{{tokens=40 tpot=40}} once and only once"}]}


@pytest.fixture
def key():
    return {"Idempotency-Key": secrets.token_hex(8)}


def test_ten_at_once_call_the_engine_once(stack, key):
    before = started(stack)
    body = {"model": "paced", "input": "one of ten", "background": True}
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: stack.ask("POST", "/v1/responses", body, **key), range(10)))
    assert {a.status for a in answers} == {200}
    (job_id,) = {a.json["id"] for a in answers}
    assert sorted(a.headers.get("x-posthouse-replayed", "") for a in answers) == ["", *["true"] * 9]
    assert stack.ended(job_id)["status"] == "completed"
    assert started(stack) == before + 1
    changed = stack.ask("POST", "/v1/responses", {**body, "input": "another body"}, **key)
    assert (changed.status, changed.json["error"]["code"]) == (409, "idempotency_conflict")
    assert changed.headers["x-should-retry"] == "false"
    somebody = stack.new_key("somebody-else")
    other = stack.ask("POST", "/v1/responses", body, key=somebody, **key)
    assert (other.status, other.json["id"] == job_id) == (200, False)
    assert stack.ended(other.json["id"], key=somebody)["status"] == "completed"


def started(stack):
    """Generations that the engines have begun so far, asked of themselves: exact at this moment."""
    return sum(processes.engine_counts(stack.socket(slot=slot))["started"] for slot in range(3))


def test_without_a_key_nothing_is_merged(stack):
    body = {"model": "paced", "input": "twice", "background": True, "temperature": 1}
    first, second = (stack.ask("POST", "/v1/responses", body).json["id"] for _ in range(2))
    assert first != second
    assert {stack.ended(job)["status"] for job in (first, second)} == {"completed"}


def test_a_cut_connection_and_a_killed_api_lead_back_to_the_same_job(stack, key):
    before = started(stack)
    with stack.open("POST", "/v1/chat/completions", {**CHAT, "stream": True}, **key) as first:
        assert first.status == 200
        first.readline()
    again = stack.ask("POST", "/v1/chat/completions", {**CHAT, "stream": True}, **key)
    assert again.headers["x-posthouse-replayed"] == "true"
    assert again.body.count(b'"role":"assistant"') == 1
    api = psutil.Process(stack.pid_of("api"))
    for process in [api, *api.children(recursive=True)]:
        process.kill()
    psutil.wait_procs([api], timeout=20)
    third = wait_until(lambda: answered(stack, key), what="the API is back", limit=60, every=0.2)
    assert third.headers["x-posthouse-replayed"] == "true"
    assert third.body == again.body
    assert started(stack) == before + 1


def answered(stack, key):
    try:
        answer = stack.ask("POST", "/v1/chat/completions", {**CHAT, "stream": True}, **key)
    except OSError:
        return None
    return answer if answer.status == 200 else None


def test_the_sdks_own_retries_start_nothing_twice(stack, client, key):
    """A caller that gives up waiting and asks again, as SDKs do by themselves."""
    before = started(stack)
    impatient = client.with_options(timeout=0.5, max_retries=0)
    ended = None
    end = time.monotonic() + 60
    while ended is None and time.monotonic() < end:
        try:
            ended = impatient.chat.completions.create(**CHAT, extra_headers=key)
        except openai.APITimeoutError:
            continue
    assert ended is not None
    assert ended.usage.completion_tokens == 40
    assert started(stack) == before + 1
