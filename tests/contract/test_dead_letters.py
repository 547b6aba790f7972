"""Dead letters: listed, tried again under the same id, and nothing else can be."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pytest

from app.errors import JobNotFound, NotADeadLetter
from app.jobs import events
from app.jobs.job import Status, Webhook
from app.services.dead_letters import DeadLetters
from tests.contract.conftest import Books
from tests.support.letters import letter

_tasks = itertools.count()


class Told:
    """Notes the hints."""

    def __init__(self) -> None:
        self.hints: list[tuple[str, str, str | None]] = []

    def publish_run(self, model: str, generation: str, slot: str | None) -> None:
        self.hints.append((model, generation, slot))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def letters(books: Books, told: Told) -> DeadLetters:
    return DeadLetters(books.client, told, {})


def claim(books: Books) -> list:
    return books.scripts.call("claim", "m", "w", "m.0", 10_000, f"task-{next(_tasks)}")


def bury(books: Books, held: list) -> None:
    assert (
        books.scripts.call("release", held[0], held[1], 1, 1, "engine_error", "the engine failed", "m.0")[0] == "failed"
    )


def answered(books: Books, held: list) -> None:
    result = json.dumps({"text": "hi", "finish_reason": "stop", "usage": {}, "tool_calls": []})
    end = events.end("completed", finish="stop")
    assert books.scripts.call("commit", held[0], held[1], held[3], "completed", result, "", "", 5, 7, 0, end)


def test_a_poison_request_is_found_among_the_dead_letters(books: Books, letters: DeadLetters) -> None:
    job, generation = letter(tenant="a")
    books.store.submit(job, generation)
    bury(books, claim(books))
    (found,) = letters.latest(10)
    assert (found.id, found.generation, found.tenant, found.model) == (job.id, generation.id, "a", "m")
    assert (found.code, found.instance, found.attempts) == ("engine_error", "m.0", 1)


def test_one_that_took_too_much_memory_is_a_dead_letter_and_a_clients_mistake_is_none(
    books: Books, letters: DeadLetters
) -> None:
    for code in ("engine_out_of_memory", "timeout", "invalid_prompt"):
        books.store.submit(*letter())
        held = claim(books)
        assert books.scripts.call(
            "commit", held[0], held[1], held[3], "failed", "", code, "", 1, 1, 0, events.end("failed")
        )
    assert sorted(each.code for each in letters.latest(10)) == ["engine_out_of_memory", "timeout"]


def test_a_retry_runs_under_the_old_id_with_new_attempts_and_a_log_of_its_own(
    books: Books, letters: DeadLetters, told: Told
) -> None:
    job, generation = letter(webhook=Webhook("https://example.com/"))
    books.store.submit(job, generation)
    bury(books, claim(books))
    before = books.store.existing(job.id)
    books.client.delete("ph:outbox")
    letters.retry(job.id)
    view = books.store.existing(job.id)
    assert (view.status, view.attempts, view.position, view.retries) == (Status.QUEUED, 0, 0, 1)
    assert view.deadline_at >= before.deadline_at
    assert told.hints == [("m", view.generation, None)]
    assert letters.latest(10) == []
    held = claim(books)
    assert (held[0], held[2], json.loads(held[6])) == (view.generation, 1, json.loads(generation.request.to_json()))
    answered(books, held)
    view = books.store.existing(job.id)
    assert (view.status, view.failure) == (Status.COMPLETED, None)
    assert [e.sequence for e in books.store.whole_log(view.generation)] == [0, 1, 2, 3]
    assert [e.kind for e in books.store.whole_log(generation.id)][-1] == "end", "the dead one is as it ended"
    assert books.client.zrange("ph:outbox", 0, -1) == [f"gen:{view.generation}"]
    assert not [k for k in books.client.keys("ph:gen:*") + books.client.keys("ph:job:*") if books.client.ttl(k) < 0]


def test_a_retry_that_fails_is_a_dead_letter_again_and_keeps_the_clients_patience(
    books: Books, letters: DeadLetters
) -> None:
    job, generation = letter(deadline_seconds=60)
    books.store.submit(job, generation)
    for _ in range(3):
        bury(books, claim(books))
        letters.retry(job.id)
        view = books.store.existing(job.id)
        assert 59_000 < view.deadline_at - view.now <= 60_000
    assert view.retries == 3


def test_only_a_dead_letter_can_be_retried(books: Books, letters: DeadLetters, told: Told) -> None:
    waiting, done, gone = letter(), letter(), letter()
    for each in (done, gone, waiting):
        books.store.submit(*each)
    answered(books, claim(books))
    books.store.cancel(gone[0].id)
    for job, _ in (waiting, done, gone):
        with pytest.raises(NotADeadLetter):
            letters.retry(job.id)
    for unknown in ("resp_" + "0" * 32, "nonsense"):
        with pytest.raises(JobNotFound):
            letters.retry(unknown)
    assert told.hints == []


def test_of_jobs_that_shared_a_generation_each_is_retried_alone(books: Books, letters: DeadLetters) -> None:
    pair = [letter(), letter()]
    for job, generation in pair:
        books.store.submit(job, dataclasses.replace(generation, join="same"))
    bury(books, claim(books))
    assert {each.id for each in letters.latest(10)} == {job.id for job, _ in pair}
    letters.retry(pair[0][0].id)
    assert [each.id for each in letters.latest(10)] == [pair[1][0].id]
    assert books.store.existing(pair[1][0].id).status is Status.FAILED
