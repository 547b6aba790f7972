"""Where the API could not count a prompt, the worker asks its engine before a place of the instance is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.jobs.job import JobView, Status
from tests.integration.workers.conftest import WorkerUnderTest
from tests.support.letters import letter

CONTEXT = 4096
LONG = " ".join(["w"] * (CONTEXT - 3 - 10))  # with role, end and answering role it leaves ten tokens


def ended(worker: WorkerUnderTest, text: str, **params: Any) -> JobView:
    new, generation = letter(model="paced", text=text, params=params)
    accepted = worker.store.submit(new, generation)
    worker.hints.publish_run("paced", generation.id, accepted.slot)
    return worker.ended(new.id)


def test_an_uncounted_prompt_is_held_against_the_context(worker_of: Callable[..., WorkerUnderTest]) -> None:
    worker = worker_of()
    refused = ended(worker, LONG, max_tokens=11, uncounted="asked")
    assert refused.failure is not None
    assert (refused.status, refused.failure.code) == (Status.FAILED, "context_length_exceeded")
    assert "holds 4096 tokens, but the prompt has 4086 tokens and 11 tokens" in refused.failure.message
    assert refused.attempts == 1
    asked = ended(worker, LONG, max_tokens=3, uncounted="asked")
    assert asked.result is not None
    assert asked.result["usage"]["output_tokens"] == 3
    lowered = ended(worker, LONG, max_tokens=1024, uncounted="open")
    assert lowered.result is not None
    assert (lowered.status, lowered.result["usage"]["output_tokens"]) == (Status.INCOMPLETE, 10)
