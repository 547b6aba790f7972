"""Two models side by side: the trouble of one is bounded, and the other one has no part in it."""

from __future__ import annotations

import concurrent.futures
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.events import counting
from tests.support.stack import Stack
from tests.support.waiting import wait_until

A, B = "ants", "bees"
CAPACITY, JOBS = 8, 60
# An instance that is out stays out long enough to see that it gets nothing.
CONFIG = f"""
[models.{A}]
engine = "paced"
instances = 3
max_concurrency = {CAPACITY}
options = {{ ttft_ms = 10, tpot_ms = 5 }}
[models.{B}]
engine = "paced"
instances = 2
max_concurrency = {CAPACITY}
options = {{ ttft_ms = 10, tpot_ms = 5 }}
[health]
probe_seconds = 3
probe_timeout_seconds = 2
backoff_seconds = 600
max_backoff_seconds = 600
"""
PROMPT, ANSWER = "{{tokens=3}}", counting(3)
DEAD, HUNG, WELL = "ants.0", "ants.1", "ants.2"


@pytest.fixture(scope="module")
def farm() -> Iterator[Stack]:
    stack = Stack(CONFIG, patience=300)
    wait_until(lambda: in_turn(stack) == [2, 3], what="all five instances take turns", limit=120, every=0.1)
    yield stack
    assert stack.stop() == 0


def in_turn(stack: Stack) -> list[int]:
    """How many instances of each model stand in its ring, the fewest first."""
    return sorted(stack.redis().llen(f"ph:ring:{model}") for model in (A, B))


def record(stack: Stack, job: str) -> dict[str, str]:
    """The generation behind a job: where it ran, where it failed, when it was accepted and claimed."""
    generation = stack.redis().hget(f"ph:job:{job}", "gen")
    return dict(stack.redis().hgetall(f"ph:gen:{generation}"))


def interleaved(stack: Stack, number: int, *, waiting_for: tuple[str, ...]) -> dict[str, list[str]]:
    """As many jobs of A as of B, in turn; the next two follow when those of the models named have ended."""
    jobs: dict[str, list[str]] = {A: [], B: []}
    for _ in range(number):
        for model in (A, B):
            jobs[model].append(stack.submit(PROMPT, model=model)["id"])
        for model in waiting_for:
            stack.ended(jobs[model][-1], limit=60)
    return jobs


def answered(stack: Stack, jobs: list[str]) -> list[dict[str, Any]]:
    """All of them are answered; their records."""
    with concurrent.futures.ThreadPoolExecutor(8) as readers:
        ended = list(readers.map(lambda job: stack.ended(job, limit=120), jobs))
    assert {(job["status"], stack.text_of(job)) for job in ended} == {("completed", ANSWER)}
    return [record(stack, job) for job in jobs]


def hints_published_again(stack: Stack) -> int:
    return stack.text().count("line_hinted_again")


def no_hint_is_under_way(stack: Stack) -> bool:
    queues = [f"gpu.{model}{slot}" for model in (A, B) for slot in ("", ".0", ".1", ".2")]
    return not stack.redis().exists("unacked", *queues)


def turns_kept(
    stack: Stack, jobs: Callable[[], dict[str, list[str]]], **instances: int
) -> dict[str, list[dict[str, str]]]:
    """Run jobs; the shares of each model's instances are equal within one. Returns the records.

    Where a machine is so busy that a hint is late by a second, the reaper publishes it again for whoever is free. One
    too many then takes the next job from the one whose turn it is, and so on: such a round says nothing, and there is
    another.
    """
    for _ in range(6):
        wait_until(lambda: no_hint_is_under_way(stack), what="no hint is under way")
        before = hints_published_again(stack)
        records = {model: answered(stack, made) for model, made in jobs().items()}
        if hints_published_again(stack) == before:
            for model, number in instances.items():
                shares = Counter(each["instance"] for each in records[model])
                assert len(shares) == number
                assert max(shares.values()) - min(shares.values()) <= 1, shares
            return records
    raise AssertionError("hints were late in each round: this machine is too busy to see whose turn it was")


def waits(records: list[dict[str, str]]) -> list[int]:
    """Milliseconds from acceptance to the last claim, on Redis' clock."""
    return [int(each["claimed_at"]) - int(each["created_at"]) for each in records]


def out(stack: Stack) -> set[str]:
    return {each["id"] for each in stack.pool(A) if each["state"] != "ready"}


def all_well(stack: Stack) -> bool:
    found = [(each["state"], each["breaker"]) for each in stack.pool(A)]
    if ("ready", "half_open") in found:  # the next request is its probe
        stack.ended(stack.submit(PROMPT, model=A)["id"], limit=60)
    return found == [("ready", "closed")] * 3


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_a_dead_and_a_hung_instance_of_one_model_leave_the_other_alone(
    farm: Stack, freeze: Callable[[int], None]
) -> None:
    """While all are well all get equal shares; then one engine of A is killed, and one accepts and is silent."""
    turns_kept(farm, lambda: interleaved(farm, JOBS // 2, waiting_for=(A, B)), **{A: 3, B: 2})

    os.kill(farm.engine_pid(A, 0), signal.SIGKILL)
    freeze(farm.engine_pid(A, 1))
    first = interleaved(farm, JOBS, waiting_for=(B,))

    troubled, alone = answered(farm, first[A]), answered(farm, first[B])
    tries = Counter(name for each in troubled for name in (DEAD, HUNG) if f"failed_on:{name}" in each)
    assert 1 <= tries[HUNG] <= CAPACITY, "the hung one gets what it has places for, and nothing more"
    assert tries[DEAD] <= CAPACITY
    assert {each["attempts"] for each in alone} == {"1"}
    held = [wait for wait, each in zip(waits(troubled), troubled, strict=True) if f"failed_on:{HUNG}" in each]
    assert max(waits(alone)) < min(held), "one of B waited as if it had hung with A"

    wait_until(lambda: out(farm) == {DEAD, HUNG}, what="both are out")
    again = turns_kept(farm, lambda: interleaved(farm, JOBS // 2, waiting_for=(A, B)), **{A: 1, B: 2})
    assert {(each["instance"], each["attempts"]) for each in again[A]} == {(WELL, "1")}
    assert out(farm) == {DEAD, HUNG}

    for name in (DEAD, HUNG):  # rather than wait for the end of their pause
        os.kill(farm.pid_of(f"gpu.{name}"), signal.SIGKILL)
    wait_until(lambda: all_well(farm), what="both have come back", limit=120, every=0.2)
    turns_kept(farm, lambda: interleaved(farm, JOBS // 2, waiting_for=(A, B)), **{A: 3, B: 2})
