"""Hints that change hands: by the model's policy, at once, and never into a queue that nobody reads."""

from __future__ import annotations

import itertools

from app.jobs.work import WorkStore
from tests.contract.conftest import Books
from tests.support.letters import letter

_tasks = itertools.count()
LEAST_LOADED = "least_loaded"


def up(books: Books, slot: int, *, used: int = 0, capacity: int = 4, policy: str = "round_robin") -> None:
    name = f"m.{slot}"
    facts = {"slot": slot, "capacity": capacity, "in_flight": used, "pid": 7, "policy": policy}
    books.client.hset(f"ph:instance:{name}", mapping=facts)
    if books.client.lpos("ph:ring:m", name) is None:
        books.client.rpush("ph:ring:m", name)


def load(books: Books, slot: int, used: int) -> None:
    books.client.hset(f"ph:instance:m.{slot}", "in_flight", used)


def three(books: Books, *, policy: str = LEAST_LOADED) -> None:
    """The first may take nothing; of the others the first in turn is the busier one."""
    for slot, used in enumerate((0, 3, 1)):
        up(books, slot, used=used, policy=policy)


def claim(books: Books, slot: int = 0, *, lease: int = 10_000) -> list:
    return books.scripts.call("claim", "m", "w", f"m.{slot}", lease, f"task-{next(_tasks)}")


def fail(books: Books, held: list, slot: int = 0) -> list:
    return books.scripts.call("release", held[0], held[1], 1, 9, "worker_lost", "it failed", f"m.{slot}")


def reap(books: Books) -> list:
    return books.scripts.call("reap", 0, 10_000, 3, 5000, 100)


def queue(books: Books, slot: int | None = None) -> list[str]:
    return books.client.lrange("gpu.m" if slot is None else f"gpu.m.{slot}", 0, -1)


def beats_now(books: Books, *slots: int) -> None:
    seconds, _ = books.client.time()
    books.client.zadd("ph:instances:m", {f"m.{slot}": seconds * 1000 for slot in slots})
    books.client.sadd("ph:models", "m")


def test_work_that_an_instance_failed_goes_to_the_least_loaded_other(books: Books) -> None:
    three(books)
    books.store.submit(*letter())
    held = claim(books)
    three(books)
    assert fail(books, held) == ["requeued", "m", "2"]


def test_a_hint_that_may_not_be_used_here_goes_to_the_least_loaded_other(books: Books) -> None:
    three(books)
    books.store.submit(*letter())
    assert books.scripts.call(*_elsewhere(0)) == "2"
    fail(books, claim(books))
    three(books)
    assert claim(books, 0) == ["2"]


def _elsewhere(slot: int) -> tuple:
    name, args = WorkStore.elsewhere_call("m", f"m.{slot}")
    return (name, *args)


def test_in_turn_stays_in_turn(books: Books) -> None:
    three(books, policy="round_robin")
    books.store.submit(*letter())
    assert [books.scripts.call(*_elsewhere(0)) for _ in range(4)] == ["1", "2", "1", "2"]


def test_where_all_others_are_full_the_hint_waits_at_one_of_them(books: Books) -> None:
    for slot in range(3):
        up(books, slot, used=4)
    books.store.submit(*letter())
    assert {books.scripts.call(*_elsewhere(0)) for _ in range(2)} == {"1", "2"}
    load(books, 0, 0)
    fail(books, claim(books))
    assert claim(books, 0)[0] in {"1", "2"}, "the instance that failed it would only get the hint again"


def test_hints_of_an_instance_that_may_take_nothing_go_to_the_others_in_turn(books: Books) -> None:
    for slot in range(3):
        up(books, slot)
    books.client.rpush("gpu.m.0", *"dcba")
    assert books.scripts.call("forward", "m", "m.0", 0) == 4
    assert [sorted(queue(books, slot)) for slot in range(3)] == [[], ["a", "c"], ["b", "d"]]


def test_hints_of_the_only_instance_wait_for_it(books: Books) -> None:
    up(books, 0)
    books.client.rpush("gpu.m.0", "a")
    assert books.scripts.call("forward", "m", "m.0", 0) == 0
    assert queue(books, 0) == ["a"]


def test_what_is_taken_back_is_hinted_in_the_same_tick_although_all_places_are_taken(books: Books) -> None:
    up(books, 0)
    up(books, 1, used=4)
    beats_now(books, 1)
    for _ in range(3):
        books.store.submit(*letter())
        claim(books, 0, lease=0)
    books.client.delete("ph:instance:m.0")
    assert reap(books) == ["reaped", 3, 0, 0, 0, "m", 3]


def test_hints_that_lie_with_a_silent_instance_are_for_all(books: Books) -> None:
    up(books, 0)
    up(books, 1)
    beats_now(books, 1)
    books.client.zadd("ph:instances:m", {"m.0": 1})
    books.client.rpush("gpu.m.0", "b", "a")
    reap(books)
    assert (queue(books, 0), queue(books)) == ([], ["b", "a"])


def test_hints_that_nobody_takes_although_there_are_places_are_for_all(books: Books) -> None:
    up(books, 0)
    up(books, 1, used=4)
    beats_now(books, 0, 1)
    job, generation = letter()
    books.store.submit(job, generation)
    books.client.rpush("gpu.m.0", "lies")
    books.client.rpush("gpu.m.1", "waits for a place")
    reap(books)
    assert queue(books, 0) == ["lies"], "it may have been published this very moment"
    books.client.hset(f"ph:gen:{generation.id}", "lined_at", 1)
    reap(books)
    assert (queue(books, 0), queue(books, 1)) == ([], ["waits for a place"])
    assert "lies" in queue(books)
