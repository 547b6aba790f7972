"""Following a job to its end: own part of a shared generation, early leaves, ends that were missed, Redis away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.errors import JobNotFound, QueueUnavailable
from app.jobs.events import Event
from app.jobs.job import JobView, Kind, Status
from app.jobs.messages import Left
from app.jobs.tail import Item, Sign
from app.services import following
from app.services.following import Ended, Following, Waiting

JOB = JobView(
    id="resp_1", kind=Kind.RESPONSE, tenant="t", generation="gen_1", model="m", status=Status.QUEUED, tier="default",
    created_at=0, deadline_at=10_000, now=0, background=True, stream=False, store=True, metadata={}, echo={},
    input_items=[], webhook=None,
)  # fmt: skip
DONE = replace(JOB, status=Status.COMPLETED)
LEFT = replace(JOB, status=Status.CANCELLED, end_sequence=4)


def batch(first: int, last: int, *, ends: bool = False) -> list[Event]:
    kinds = ["delta"] * (last - first) + (["end"] if ends else ["delta"])
    return [Event(first + at, {"k": kind, "x": ""}) for at, kind in enumerate(kinds)]


class Script:
    """A tail that plays a list of items, and knows what a real one would want next."""

    def __init__(self, *items: Item, start: int | None = 0) -> None:
        self.items = items
        self.next = start

    def follow(self, **_: float) -> Iterator[Item]:
        for item in self.items:
            if isinstance(item, list) and self.next is not None:
                self.next = item[-1].sequence + 1
            yield item
        raise AssertionError("the end was not noticed")


class Store:
    """Answers from lists: an exception is raised, anything else is given; the last one stays."""

    def __init__(self, *views: JobView | Exception, log: int = 0) -> None:
        self.views = list(views)
        self.last = log

    def existing(self, _: str) -> JobView:
        view = self.views.pop(0) if len(self.views) > 1 else self.views[0]
        if isinstance(view, Exception):
            raise view
        return view

    def log(self, _: str, *, start: int, **__: int) -> list[Event]:
        return batch(start, self.last) if start <= self.last else []


def steps(tail: Script, store: Store, clock: Any = lambda: 0.0) -> list[Any]:
    return list(Following(store, JOB, clock).steps(tail))  # type: ignore[arg-type]


def test_events_come_through_and_the_end_event_ends_it() -> None:
    found = steps(Script(batch(0, 2), batch(3, 5, ends=True)), Store(DONE))
    assert found == [batch(0, 2), batch(3, 5, ends=True), Ended(DONE, 5)]


def test_quiet_ticks_come_through() -> None:
    assert steps(Script(Sign.TICK, batch(0, 0, ends=True)), Store(DONE))[0] == Waiting()


def test_an_early_leave_ends_it_after_everything_before_it() -> None:
    assert steps(Script(batch(0, 3), Left("resp_1", 4)), Store(LEFT)) == [batch(0, 3), Ended(LEFT, 4)]


def test_the_leave_of_another_job_is_none_of_its_business() -> None:
    found = steps(Script(batch(0, 3), Left("resp_2", 4), batch(4, 4, ends=True)), Store(DONE))
    assert found[-1] == Ended(DONE, 4)


def test_what_a_shared_generation_says_after_the_leave_is_cut() -> None:
    found = steps(Script(Sign.RESYNCED, batch(0, 6)), Store(LEFT))
    assert found == [batch(0, 3), Ended(LEFT, 4)]


def test_a_leave_that_was_missed_is_found_by_looking() -> None:
    assert steps(Script(batch(0, 3), Sign.RESYNCED), Store(LEFT)) == [batch(0, 3), Ended(LEFT, 4)]


def test_a_start_beyond_the_end_ends_at_once() -> None:
    assert steps(Script(Sign.RESYNCED, start=9), Store(DONE, log=5)) == [Ended(DONE, 8)]


def test_an_end_that_is_logged_but_not_yet_seen_is_waited_for() -> None:
    tail = Script(batch(0, 3), Sign.RESYNCED, batch(4, 5, ends=True))
    assert steps(tail, Store(DONE, log=5)) == [batch(0, 3), batch(4, 5, ends=True), Ended(DONE, 5)]


def test_a_look_that_failed_is_repeated() -> None:
    tail = Script(batch(0, 3), Sign.RESYNCED, Sign.TICK)
    found = steps(tail, Store(QueueUnavailable("away"), LEFT))
    assert found == [batch(0, 3), Waiting(), Ended(LEFT, 4)]


def test_the_final_look_is_repeated_until_redis_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "TICK_SECONDS", 0)
    found = steps(Script(batch(0, 0, ends=True)), Store(QueueUnavailable("away"), DONE))
    assert found[1:] == [Waiting(), Ended(DONE, 0)]


def test_a_job_that_is_gone_is_not_followed() -> None:
    with pytest.raises(JobNotFound):
        steps(Script(Sign.RESYNCED), Store(JobNotFound("gone")))


def test_it_gives_up_some_time_after_the_deadline() -> None:
    times = iter([0.0, 69.0, 71.0])
    with pytest.raises(QueueUnavailable):
        steps(Script(Sign.TICK, Sign.TICK, Sign.TICK), Store(DONE), lambda: next(times))


def test_a_live_only_tail_ends_by_leave_and_by_look() -> None:
    assert steps(Script(Left("resp_1", 4), start=None), Store(LEFT)) == [Ended(LEFT, 4)]
    assert steps(Script(Sign.RESYNCED, start=None), Store(DONE)) == [Ended(DONE, 0)]
