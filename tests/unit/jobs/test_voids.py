"""What is owed to Redis is paid once it answers, by whoever asks first; nobody waits twice for the same failure."""

from __future__ import annotations

import threading

import pytest

from app.errors import QueueUnavailable
from app.jobs.voids import Owed
from tests.support.waiting import wait_until


class Away:
    """A command that fails until `back` is set, and remembers what it was called with."""

    def __init__(self) -> None:
        self.back = threading.Event()
        self.paid: list[str] = []
        self.tries = 0

    def __call__(self, job: str) -> None:
        self.tries += 1
        if not self.back.is_set():
            raise QueueUnavailable("away")
        self.paid.append(job)


@pytest.fixture
def away() -> Away:
    return Away()


def test_nothing_owed_costs_nothing(away: Away) -> None:
    Owed("void", away).settle()
    assert away.tries == 0


def test_a_debt_is_paid_in_the_background_once_redis_answers(away: Away) -> None:
    owed = Owed("void", away)
    owed.add("a")
    owed.add("b")
    wait_until(lambda: away.tries > 0, what="a try")
    away.back.set()
    wait_until(lambda: not len(owed), what="everything is paid")
    assert away.paid == ["a", "b"]


def test_settling_fails_while_redis_is_away_and_pays_everything_when_it_is_back(away: Away) -> None:
    owed = Owed("void", away)
    owed.add("a")
    with pytest.raises(QueueUnavailable):
        owed.settle()
    away.back.set()
    owed.settle()
    assert (away.paid, len(owed)) == (["a"], 0)


def test_many_who_wait_for_one_failing_try_fail_with_it() -> None:
    started, release, tries = threading.Event(), threading.Event(), []

    def slow(job: str) -> None:
        tries.append(job)
        started.set()
        release.wait(10)
        raise QueueUnavailable("away")

    owed = Owed("void", slow)
    owed.add("a")
    started.wait(10)
    failures: list[Exception] = []

    def settle() -> None:
        try:
            owed.settle()
        except QueueUnavailable as error:
            failures.append(error)

    waiting = [threading.Thread(target=settle) for _ in range(20)]
    for thread in waiting:
        thread.start()
    before = len(tries)
    release.set()
    for thread in waiting:
        thread.join(10)
    assert len(failures) == 20
    assert len(tries) - before <= 2


def test_the_list_is_bounded(away: Away) -> None:
    owed = Owed("void", away, limit=3)
    for job in "abcde":
        owed.add(job)
    assert len(owed) == 3
    away.back.set()
    wait_until(lambda: not len(owed), what="everything is paid")
    assert set("cde") <= set(away.paid)


def test_a_debt_that_can_never_be_paid_holds_up_nobody() -> None:
    paid: list[str] = []

    def act(job: str) -> None:
        if job == "broken":
            raise ValueError(job)
        paid.append(job)

    owed = Owed("void", act)
    for job in ("broken", "good"):
        owed.add(job)
    owed.settle()
    assert (paid, len(owed)) == (["good"], 0)
