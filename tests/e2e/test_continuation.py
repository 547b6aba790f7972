"""An answer outlives its engine and its worker: no gap, no repetition, no contradiction."""

from __future__ import annotations

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from tests.support import processes
from tests.support.events import chat_text, counting, numbers, text
from tests.support.waiting import wait_until


@pytest.mark.parametrize("fault", ["crash_at", "cut_at"])
def test_an_answer_goes_on_where_its_engine_broke(stack, client, fault):
    whole = client.responses.create(model="paced", input="{{tokens=50}}")

    events = list(client.responses.create(model="paced", input=f"{{{{{fault}=20 tokens=50}}}}", stream=True))

    assert text(events) == counting(50) == whole.output_text
    assert numbers(events) == list(range(len(events)))
    done = events[-1].response
    assert (done.status, done.output_text) == ("completed", counting(50))
    assert done.usage.output_tokens == whole.usage.output_tokens == 50
    # The input counts once; the two prompts differ by one word of their block, which the paced server counts too.
    assert done.usage.input_tokens == whole.usage.input_tokens + 1
    assert stack.job(done.id)["attempts"] == 2


def test_characters_split_by_the_break_come_whole(client):
    whole = client.responses.create(model="paced", input="{{bytes}}")
    events = list(client.responses.create(model="paced", input="{{bytes crash_at=41}}", stream=True))
    assert text(events) == whole.output_text
    assert "\ufffd" not in whole.output_text


def test_a_chat_stream_goes_on_where_its_engine_broke(client):
    chunks = list(
        client.chat.completions.create(
            model="paced",
            messages=[{"role": "user", "content": "{{crash_at=10 tokens=30}}"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chat_text(chunks) == counting(30)
    assert chunks[-1].usage.completion_tokens == 30
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["stop"]


def test_a_budget_holds_over_the_break(client):
    events = list(
        client.responses.create(model="paced", input="{{crash_at=20 tokens=50}}", max_output_tokens=30, stream=True)
    )
    assert text(events) == counting(30)
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.incomplete_details.reason == "max_output_tokens"
    assert events[-1].response.usage.output_tokens == 30


def test_a_stop_string_across_the_break_still_ends_the_answer(client):
    done = client.chat.completions.create(
        model="paced", messages=[{"role": "user", "content": "{{crash_at=20 tokens=50}}"}], stop=["19 20 21"]
    )
    assert done.choices[0].message.content == counting(18) + " "
    assert done.choices[0].finish_reason == "stop"


_LATE = " ".join(map(str, range(30, 51)))  # the worker holds this back, for two seconds at 100 ms a token
_BYTES = "žluťoučký kůň · ภาษาไทย · 驿站换马 · 👩‍👩‍👧 🐎"


@pytest.mark.parametrize(
    ("prompt", "more", "read", "expected"),
    [
        ("{{tokens=150 tpot=20}}", {}, counting(40), counting(150)),
        ("{{tokens=80 tpot=20}}", {"max_output_tokens": 50}, counting(20), counting(50)),
        ("{{tokens=80 tpot=100}}", {"extra_body": {"stop": [_LATE]}}, counting(29), counting(29) + " "),
        ("{{tokens=80 tpot=100}}", {"extra_body": {"stop": [_LATE + " fifty"]}}, counting(29), counting(80)),
        ("{{bytes tpot=50}}", {}, _BYTES[:12], _BYTES),
        ("{{bytes tpot=50}}", {"max_output_tokens": 56}, _BYTES[:20], "žluťoučký kůň · ภาษาไทย · 驿站"),
    ],
    ids=["whole", "budget", "held back", "near miss", "half characters", "budget in a character"],
)
def test_an_answer_goes_on_when_its_worker_is_killed(stack, prompt, more, read, expected):
    client = stack.client()
    whole = client.responses.create(model="paced", input=_hurried(prompt), **more)

    events = _stream_over_a_kill(stack, client, read, input=prompt, **more)

    assert text(events) == expected == whole.output_text
    assert numbers(events) == list(range(len(events)))
    done = events[-1].response
    assert (done.status, done.output_text) == (whole.status, expected)
    assert (done.incomplete_details, done.usage) == (whole.incomplete_details, whole.usage)
    assert stack.job(done.id)["attempts"] == 2


def _hurried(prompt: str) -> str:
    """A prompt of as many tokens that has the same answer."""
    return re.sub(r"tpot=\d+", "tpot=1", prompt)


def _stream_over_a_kill(stack, client, read: str, **request) -> list[Any]:
    """The events of an answer whose worker is killed once the client has read so much."""
    events: list[Any] = []
    worker = 0
    for event in client.responses.create(model="paced", background=True, stream=True, **request):
        events.append(event)
        if event.type == "response.output_text.delta":
            worker = worker or _worker_of(stack, events[0].response.id)
            if text(events) == read:
                os.kill(worker, signal.SIGKILL)
    return events


def _worker_of(stack, job_id: str) -> int:
    redis = stack.redis()
    instance = redis.hget(f"ph:gen:{redis.hget(f'ph:job:{job_id}', 'gen')}", "instance")
    return stack.pid_of(f"gpu.{instance}")


def test_an_answer_with_a_penalty_is_not_patched_together(stack, client):
    """The engine's penalty state would differ after the seam, so the answer ends, and what there is stays readable."""
    with pytest.raises(openai.APIError) as caught:
        list(
            client.chat.completions.create(
                model="paced",
                messages=[{"role": "user", "content": "{{crash_at=10 tokens=30 tpot=20}}"}],
                presence_penalty=0.5,
                stream=True,
            )
        )
    assert caught.value.code == "worker_lost"


def test_an_answer_with_a_penalty_starts_over_while_nothing_was_said(stack, client):
    with ThreadPoolExecutor(1) as thread:
        asking = thread.submit(
            client.chat.completions.create,
            model="paced",
            messages=[{"role": "user", "content": "{{ttft=2000 tokens=3}}"}],
            presence_penalty=0.5,
        )
        slot = wait_until(lambda: _slot_that_works(stack), what="an engine has it")
        os.kill(stack.engine_pid(slot=int(slot)), signal.SIGKILL)
        assert asking.result().choices[0].message.content == counting(3)


def _slot_that_works(stack) -> str | None:
    counts = {slot: processes.engine_counts(stack.socket(slot=slot))["in_flight"] for slot in range(3)}
    return next((str(slot) for slot, running in counts.items() if running), None)
