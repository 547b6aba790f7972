"""The engines besides vLLM in a whole stack: a real answer, and one that goes on after its engine was killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.integration.model_pool.conformance.subjects import SUBJECTS
from tests.support.events import numbers, text
from tests.support.stack import Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_STORY = "Write a very long story about a horse that carries letters over the mountains."


@pytest.fixture(scope="module", params=["onnxruntime", "llama_cpp"])
def other(request) -> Iterator[tuple[Stack, str]]:
    subject = SUBJECTS[request.param]
    if why := subject.missing():
        pytest.skip(why)
    stack = Stack(
        f'[models.demo]\nengine = "{subject.engine}"\npath = "{subject.path()}"\n'
        "max_concurrency = 4\ncontext_length = 1024\n"
    )
    yield stack, request.param
    assert stack.stop() == 0


def test_an_answer_goes_on_after_its_engine_was_killed(other):
    """By token ids where the engine gives them, to the very same text; else by its text, without saying it twice."""
    stack, engine = other
    client = stack.client(timeout=300)
    whole = client.responses.create(model="demo", input=_STORY, temperature=0, max_output_tokens=100)
    assert (whole.status, whole.usage.output_tokens) == ("incomplete", 100)

    events = []
    asked = {"model": "demo", "input": _STORY, "temperature": 0, "max_output_tokens": 100, "stream": True}
    for event in client.responses.create(**asked, extra_headers={"cache-control": "no-cache"}):
        events.append(event)
        if sum(e.type == "response.output_text.delta" for e in events) == 10 and event.type.endswith("text.delta"):
            os.kill(stack.engine_pid("demo"), signal.SIGKILL)

    done = events[-1].response
    assert numbers(events) == list(range(len(events)))
    assert text(events) == done.output_text
    assert stack.job(done.id)["attempts"] == 2
    assert done.usage.input_tokens == whole.usage.input_tokens
    if engine == "onnxruntime":
        assert done.output_text == whole.output_text
        assert done.usage.output_tokens == 100
    else:
        assert done.output_text[:40] == whole.output_text[:40]
        assert done.output_text.count(whole.output_text[:30]) == 1
        assert 90 <= done.usage.output_tokens <= 100
