"""While no instance of a model is healthy: fallbacks in order, the busy reply for chats, waiting for everybody else."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from app.jobs.generation import UNCOUNTED, Claim, Dispatch
from app.jobs.job import JobView, Kind, NewJob, Status
from app.jobs.work import WorkStore
from tests.contract.conftest import Books
from tests.support.letters import letter

_tasks = itertools.count()
SMALL = Dispatch(fallbacks=(("small", 7), ("tiny", 5)))


def up(books: Books, model: str, slot: int = 0, *, capacity: int = 4) -> None:
    books.client.hset(f"ph:instance:{model}.{slot}", mapping={"slot": slot, "capacity": capacity, "in_flight": 0})
    books.client.rpush(f"ph:ring:{model}", f"{model}.{slot}")
    books.client.sadd("ph:models", model)


def down(books: Books, model: str, slot: int = 0) -> None:
    books.client.lrem(f"ph:ring:{model}", 0, f"{model}.{slot}")


def submit(books: Books, dispatch: Dispatch, **facts: Any) -> NewJob:
    job, generation = letter(**facts)
    books.store.submit(job, dataclasses.replace(generation, dispatch=dispatch))
    return job


def claim(books: Books, model: str, slot: int = 0) -> Claim | None:
    task = f"task-{next(_tasks)}"
    return WorkStore.claim_from(books.scripts.call("claim", model, "w", f"{model}.{slot}", 10_000, task))


def reap(books: Books) -> list[Any]:
    return books.scripts.call("reap", 0, 10_000, 3, 5000, 100)


def view(books: Books, job: NewJob) -> JobView:
    return books.store.existing(job.id)


def test_a_fallback_takes_new_work_at_once_and_says_so(books: Books) -> None:
    up(books, "small", slot=3)
    job = submit(books, SMALL, params={"max_tokens": 4000})
    assert books.store.stand_in(view(books, job).generation) == ("small", "3")
    found = view(books, job)
    assert (found.model, found.degraded, found.position) == ("m", True, 0)
    held = claim(books, "small", 3)
    assert held is not None
    assert (held.request.params["max_tokens"], held.request.params[UNCOUNTED], held.cache) == (7, "open", "")
    assert books.client.zcard("ph:line:m") == books.client.hlen("ph:line:m:tenants") == 0


def test_fallbacks_are_tried_in_order_and_only_as_far_as_they_have_room(books: Books) -> None:
    up(books, "small", capacity=1)
    up(books, "tiny", capacity=1)
    jobs = [submit(books, SMALL) for _ in range(3)]
    report = reap(books)
    assert dict(zip(report[5::2], report[6::2], strict=True)) == {"small": 1, "tiny": 1}
    assert [claim(books, model) is not None for model in ("small", "tiny", "m")] == [True, True, True]
    assert [view(books, job).degraded for job in jobs] == [True, True, False]


def test_a_healthy_model_keeps_its_work_and_so_does_one_with_full_fallbacks(books: Books) -> None:
    up(books, "m")
    up(books, "small", capacity=0)
    job = submit(books, SMALL)
    assert books.store.stand_in(view(books, job).generation) is None
    down(books, "m")
    assert books.store.stand_in(view(books, job).generation) is None
    assert view(books, job).degraded is False


def test_what_has_emitted_something_waits_for_its_own_model(books: Books) -> None:
    up(books, "m")
    job = submit(books, SMALL)
    held = claim(books, "m")
    assert held is not None
    assert books.scripts.call("append", held.generation, held.fence, 3, "", '{"k":"item"}', '{"k":"part"}') == 1
    down(books, "m")
    up(books, "small")
    books.scripts.call("release", held.generation, held.fence, 1, 3, "worker_lost", "gone", "m.0")
    reap(books)
    assert view(books, job).degraded is False
    assert books.client.zcard("ph:line:m") == 1


def test_what_waits_for_a_fallback_that_is_gone_too_returns_to_its_own_model(books: Books) -> None:
    up(books, "small")
    job = submit(books, SMALL)
    reap(books)
    assert view(books, job).degraded is True
    down(books, "small")
    up(books, "m")
    reap(books)
    assert view(books, job).degraded is False
    held = claim(books, "m")
    assert held is not None
    assert held.request.params["max_tokens"] == 16


def test_nobody_joins_what_a_fallback_answers(books: Books) -> None:
    up(books, "small")
    job, generation = letter()
    books.store.submit(job, dataclasses.replace(generation, join="same", dispatch=SMALL))
    reap(books)
    _, another = letter()
    assert not books.store.submit(letter()[0], dataclasses.replace(another, join="same", dispatch=SMALL)).joined


def test_a_chat_gets_the_busy_reply_once_it_has_waited_for_nobody(books: Books) -> None:
    busy = Dispatch(busy_reply='Sorry: "later", 请稍候/…', busy_after=0.001)
    chat = submit(books, busy, kind=Kind.CHAT)
    patient = submit(books, Dispatch())
    books.pass_time()
    reap(books)
    found = view(books, chat)
    assert (found.status, found.degraded, found.model) == (Status.COMPLETED, True, "m")
    assert found.result is not None
    assert (found.result["text"], found.result["finish_reason"]) == (busy.busy_reply, "stop")
    log = list(books.store.whole_log(found.generation))
    assert [e.sequence for e in log] == list(range(10))
    assert log[5].body["x"] == busy.busy_reply
    assert log[-1].ends
    assert view(books, patient).status is Status.QUEUED
    assert books.client.zcard("ph:busy") == 0


def test_no_busy_reply_while_somebody_is_healthy_or_before_its_time(books: Books) -> None:
    soon, later = Dispatch(busy_reply="later", busy_after=0.001), Dispatch(busy_reply="later", busy_after=60)
    up(books, "m")
    chat = submit(books, soon, kind=Kind.CHAT)
    books.pass_time()
    reap(books)
    down(books, "m")
    fresh = submit(books, later, kind=Kind.CHAT)
    reap(books)
    assert (view(books, chat).status, view(books, fresh).status) == (Status.QUEUED, Status.QUEUED)


def test_work_for_nobody_ends_at_its_deadline_as_model_unavailable(books: Books) -> None:
    job = submit(books, Dispatch(), deadline_seconds=0.001)
    books.pass_time()
    reap(books)
    found = view(books, job)
    assert (found.status, found.failure and found.failure.code) == (Status.FAILED, "model_unavailable")


def test_everything_of_a_stand_in_has_a_time_to_live(books: Books) -> None:
    up(books, "small")
    submit(books, SMALL)
    reap(books)
    kept = [*books.client.keys("ph:gen:*"), *books.client.keys("ph:job:*")]
    assert kept
    assert not [key for key in kept if books.client.ttl(key) < 0]
