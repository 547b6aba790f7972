"""What the two steps of a line do in Redis does not grow with the pool or with the line. Counted, not timed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import redis

from app.jobs.accepting import QueueCaps
from app.jobs.store import SCRIPTS, JobStore
from app.lua import Scripts
from tests.support.letters import letter

_tasks = itertools.count()


@pytest.fixture
def client(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url, decode_responses=True, protocol=2)


@pytest.fixture
def store(client: redis.Redis) -> JobStore:
    return JobStore(client, caps=QueueCaps(10_000, 10_000), idempotency_seconds=60, submit_timeout=10)


def pool(client: redis.Redis, size: int) -> None:
    """So many instances with free places, and a pace that was measured."""
    client.hset("ph:rate:m", mapping={"work": 100, "busy": 10, "runs": 10, "at": client.time()[0] * 1000})
    for slot in range(size):
        client.hset(f"ph:instance:m.{slot}", mapping={"capacity": 4, "in_flight": 0, "slot": slot})
        client.rpush("ph:ring:m", f"m.{slot}")


def commands(client: redis.Redis) -> int:
    found: Any = client.info("commandstats")
    return sum(counts["calls"] for counts in found.values())


def steps(client: redis.Redis, store: JobStore) -> tuple[int, int]:
    """Commands of a submit and of a claim."""
    store.submit(*letter())  # the scripts are known from here on
    Scripts(client, SCRIPTS).call("claim", "m", "w", "m.0", 10_000, f"steps-{next(_tasks)}")
    before = commands(client)
    store.submit(*letter())
    between = commands(client)
    Scripts(client, SCRIPTS).call("claim", "m", "w", "m.0", 10_000, f"steps-{next(_tasks)}")
    return between - before, commands(client) - between


def test_a_large_pool_makes_no_step_longer_than_a_pool_of_a_dozen(client: redis.Redis, store: JobStore) -> None:
    pool(client, 12)
    few = steps(client, store)
    client.delete("ph:ring:m")
    pool(client, 200)
    submit, claim = steps(client, store)
    assert submit - few[0] <= 12  # one look into the ring for each instance of the sample
    assert claim == few[1]


def test_a_long_line_makes_no_step_longer_than_a_short_one(client: redis.Redis, store: JobStore) -> None:
    pool(client, 4)
    store.submit(*letter())
    short = steps(client, store)
    for number in range(500):
        store.submit(*letter(tenant=f"tenant-{number % 50}", tier=("priority", "default", "flex")[number % 3]))
    submit, claim = steps(client, store)
    assert submit <= short[0]
    assert claim <= short[1]
