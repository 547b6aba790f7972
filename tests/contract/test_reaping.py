"""One tick of the reaper is short whatever there is to do: it does a part, and the rest comes at once."""

from __future__ import annotations

import dataclasses
from typing import Any

from app.jobs import events
from app.jobs.job import Status, Webhook
from tests.contract.conftest import Books
from tests.support.letters import letter

TICK = 60_000  # nobody else's tick can come in between
PART = 4


def reap(books: Books) -> list[Any]:
    return list(books.scripts.call("reap", TICK, 10_000, 3, 5000, PART))


def due(books: Books) -> None:
    """All deadlines have passed."""
    for job_id in books.client.zrange("ph:deadlines", 0, -1):
        books.client.zadd("ph:deadlines", {job_id: 1})


def test_many_deadlines_at_once_take_many_ticks_without_a_pause_in_between(books: Books) -> None:
    kept = [books.store.submit(*letter()).job_id for _ in range(2 * PART + 1)]
    due(books)
    assert [reap(books)[:4] for _ in range(4)] == [
        ["more", 0, 0, PART],
        ["more", 0, 0, PART],
        ["reaped", 0, 0, 1],
        ["skipped"],
    ]
    assert {books.store.existing(job_id).status for job_id in kept} == {Status.FAILED}


def test_lost_leases_and_deadlines_share_one_tick(books: Books) -> None:
    for number in range(PART):
        books.store.submit(*letter())
        if number:
            books.scripts.call("claim", "m", "w", "m.0", 0, f"reaping-{number}")
    books.store.submit(*letter())
    books.client.zadd("ph:deadlines", dict.fromkeys(waiting_jobs(books), 1))
    assert reap(books)[:4] == ["more", PART - 1, 0, 1]
    assert reap(books)[:4] == ["reaped", 0, 0, 1]


def waiting_jobs(books: Books) -> list[str]:
    """Jobs that nobody has claimed."""
    found = []
    for member in books.client.zrange("ph:line:m", 0, -1):
        found += books.client.smembers(f"ph:gen:{member[17:]}:jobs")
    return found


def test_deadlines_of_what_has_ended_long_since_do_not_hold_up_what_waits(books: Books) -> None:
    together = [together_with_others() for _ in range(101)]  # of more than 100 the deadlines are left to the reaper
    for job, generation in together:
        books.store.submit(job, generation)
    held = books.scripts.call("claim", "m", "w", "m.0", 10_000, "reaping-shared")
    end = events.end("completed", finish="stop")
    assert books.scripts.call("commit", held[0], held[1], held[3], "completed", "{}", "", "", 1, 1, 0, end)
    waiting = books.store.submit(*letter()).job_id
    due(books)
    books.client.zadd("ph:deadlines", {waiting: 2})
    outcomes = [reap(books)[0] for _ in range(4)]
    assert outcomes == ["more", "more", "more", "reaped"]
    assert books.client.zcard("ph:deadlines") == 0
    assert books.store.existing(waiting).status is Status.FAILED
    assert {books.store.existing(job.id).status for job, _ in together} == {Status.COMPLETED}


def together_with_others() -> Any:
    job, generation = letter(webhook=Webhook("https://a/hook"))
    return job, dataclasses.replace(generation, join="same")
