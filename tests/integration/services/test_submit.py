"""Submits whose reply is lost, on a real Redis: they answer with an error, so they never run."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import pytest

from app.errors import QueueUnavailable
from app.jobs.accepting import Accepted, QueueCaps, SubmitOutcomeUnknown
from app.jobs.feed import Feed
from app.jobs.generation import NewGeneration
from app.jobs.job import Kind, NewJob
from app.jobs.store import SCRIPTS, JobStore
from app.jobs.voids import Owed
from app.lua import Scripts
from app.redis import jobs_client, pubsub_link
from app.sections import JobSettings, ModelSettings
from app.services.cached_answers import Answers
from app.services.keys import DEV_KEY
from app.services.models import Models
from app.services.orders import Order
from app.services.results import Results
from app.services.submit import Submit
from cache.memory_store import MemoryEntryStore
from tests.support import caches
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

ORDER = Order(Kind.RESPONSE, DEV_KEY, "m", [{"role": "user", "content": "x"}], {}, 5, "max_output_tokens")


class Lossy(JobStore):
    """A store whose next replies to a submit are lost on the way back, after Redis has done it."""

    losing = 0
    lost: str = ""
    voiding = True

    def submit(self, job: NewJob, generation: NewGeneration) -> Accepted:
        accepted = super().submit(job, generation)
        if self.losing:
            self.losing -= 1
            self.lost = job.id
            raise SubmitOutcomeUnknown(job.id)
        return accepted

    def void(self, job_id: str) -> None:
        if not self.voiding:
            raise QueueUnavailable("away")
        super().void(job_id)


class Hints:
    """Counts what is published."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def publish_run(self, model: str, generation: str, slot: str | None) -> None:
        self.runs.append(f"{model} {generation} {slot}")


@dataclass
class Desk:
    store: Lossy
    voids: Owed
    hints: Hints
    submit: Submit
    results: Results
    scripts: Scripts
    feed: Feed

    def claimed(self) -> list[str]:
        """Everything that a worker would get now."""
        found = []
        while held := self.scripts.call("claim", "m", "w", "m.0", 10_000, f"task-{len(found)}-{id(found)}"):
            found.append(str(held[0]))
        return found


@pytest.fixture
def desk(own_redis: RedisProcess) -> Iterator[Desk]:
    client = jobs_client(own_redis.url(), timeout=1)
    store = Lossy(client, caps=QueueCaps(10, 10), idempotency_seconds=60, submit_timeout=1)
    feed = Feed(functools.partial(pubsub_link, own_redis.url(), timeout=1), store.log)
    voids, hints = Owed("void", store.void), Hints()
    models = Models({"m": ModelSettings(engine="paced")}, store.stats, now=0)
    answers = Answers(caches.desk(MemoryEntryStore(monotonic=time.monotonic), time.time).cache, lambda _: False)
    submit = Submit(
        store=store, models=models, feed=feed, hints=hints, voids=voids, check_url=lambda _: None, answers=answers,
        limits=JobSettings(),
    )  # fmt: skip
    yield Desk(store, voids, hints, submit, Results(store, feed, voids), Scripts(client, SCRIPTS), feed)
    feed.close()


def test_a_submit_whose_reply_was_lost_is_voided_before_anything_else_is_asked(desk: Desk) -> None:
    desk.store.losing, desk.store.voiding = 1, False
    with pytest.raises(QueueUnavailable):
        desk.submit.submit(ORDER)
    assert desk.hints.runs == []
    for ask in (lambda: desk.submit.submit(ORDER), lambda: desk.results.view(desk.store.lost, DEV_KEY)):
        with pytest.raises(QueueUnavailable):
            ask()
    desk.store.voiding = True
    kept = desk.submit.submit(ORDER)
    assert desk.store.view(desk.store.lost) is None
    assert desk.claimed() == [kept.view.generation]


def test_a_lost_submit_is_voided_without_being_asked_anything(desk: Desk) -> None:
    desk.store.losing = 1
    with pytest.raises(QueueUnavailable):
        desk.submit.submit_followed(ORDER)
    wait_until(lambda: not len(desk.voids), what="it is voided")
    assert desk.claimed() == []
    assert desk.store.view(desk.store.lost) is None


def test_a_joined_job_that_cannot_be_shown_is_voided(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    order = replace(ORDER, params={"temperature": 0})
    first = desk.submit.submit(order)
    seen: list[str] = []

    def blind(job_id: str) -> NoReturn:
        seen.append(job_id)
        raise QueueUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "existing", blind)
        with pytest.raises(QueueUnavailable):
            desk.submit.submit(order)
    wait_until(lambda: not len(desk.voids), what="it is voided")
    assert desk.store.view(seen[0]) is None
    assert desk.claimed() == [first.view.generation]


def test_a_submit_that_fails_leaves_no_tail_open(desk: Desk) -> None:
    desk.store.losing = 1
    with pytest.raises(QueueUnavailable):
        desk.submit.submit_followed(ORDER)
    assert desk.feed.streams == 0


def test_what_is_shown_at_once_is_what_a_look_at_the_record_shows(desk: Desk) -> None:
    shown = desk.submit.submit(ORDER).view
    looked = desk.results.view(shown.id, DEV_KEY)
    assert (shown.created_at, shown.deadline_at, shown.position) == (looked.created_at, looked.deadline_at, 0)
    different = {f for f in shown.__dataclass_fields__ if getattr(shown, f) != getattr(looked, f)}
    assert different <= {"now"}


def test_a_kept_job_is_hinted_once(desk: Desk) -> None:
    kept = desk.submit.submit(ORDER)
    assert desk.hints.runs == [f"m {kept.view.generation} None"]
