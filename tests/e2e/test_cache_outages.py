"""The cache is a help and never a need: frozen, too small or full, it costs no job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from tests.support.stack import Stack
from tests.support.waiting import wait_until

LONGEST_REPLY = 5.0
LARGE = 100_000
CONFIG = """
[models.paced]
engine = "paced"
max_concurrency = 8
[models.other]
engine = "paced"
max_concurrency = 1
[redis]
jobs_timeout = 5
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[Stack]:
    """Two models, so that the work of one can wait while the other fills the cache."""
    stack = Stack(CONFIG)
    yield stack
    assert stack.stop() == 0


@pytest.fixture
def cache(pair: Stack) -> Iterator[redis.Redis]:
    """The cache's Redis, in use again after whatever happened to it before, with room again afterwards."""
    wait_until(lambda: pair.submit("is it back", temperature=0)["cache"] == "hit", what="it is used again", every=0.2)
    url = f"redis://:{pair.secrets['redis_password']}@127.0.0.1:{pair.ports['redis.cache']}/0"
    client = redis.Redis.from_url(url, protocol=2)
    before = {name: client.config_get(name)[name] for name in ("maxmemory", "maxmemory-policy")}
    yield client
    for name, value in before.items():
        client.config_set(name, value)


def test_a_frozen_cache_is_a_miss_for_everybody(pair: Stack, freeze: Callable[[int], None]) -> None:
    kept = pair.ended(pair.submit("kept", temperature=0)["id"])["id"]
    wait_until(lambda: pair.submit("kept", temperature=0)["cache"] == "hit", what="it is in the cache")
    pid = pair.pid_of("redis.cache")
    freeze(pid)
    asked = [
        *(("POST", "/v1/responses", {"model": "paced", "input": f"n {n}", "temperature": 0}) for n in range(20)),
        *[("GET", f"/v1/responses/{kept}", None)] * 20,
        *[("GET", "/healthz", None)] * 20,
        *[("GET", "/readyz", None)] * 20,
    ]

    def one(request: tuple) -> tuple:
        began = time.monotonic()
        return pair.ask(*request), time.monotonic() - began

    with ThreadPoolExecutor(len(asked)) as threads:
        replies = list(threads.map(one, asked))
    assert {answer.status for answer, _ in replies} == {200}
    assert {(answer.json["status"], answer.json["cache"]) for answer, _ in replies[:20]} == {("completed", "miss")}
    assert max(seconds for _, seconds in replies) < LONGEST_REPLY


@pytest.mark.parametrize("policy", ["allkeys-lru", "noeviction"])
def test_a_cache_without_room_costs_no_job_that_waits(pair: Stack, cache: redis.Redis, policy: str) -> None:
    """Twice what it holds is offered: the one drops what is old, the other refuses what is new."""
    # Counted from an empty server: what it uses at the moment may be buffers of its clients, which shrink again.
    cache.config_set("maxmemory", cache.info("memory")["used_memory_startup"] + 40 * LARGE)
    cache.config_set("maxmemory-policy", policy)
    evicted = cache.info("stats")["evicted_keys"]
    waiting = [pair.submit(f"{policy} {n} {{{{tokens=30 tpot=20}}}}", model="other")["id"] for n in range(20)]
    with ThreadPoolExecutor(4) as threads:
        filling = list(threads.map(lambda n: pair.submit(f"{policy}{n}" + "x" * LARGE, temperature=0), range(80)))
    assert pair.redis().zcard("ph:line:other") > 0
    for job_id in (*waiting, *(job["id"] for job in filling)):
        assert pair.ended(job_id, limit=60)["status"] == "completed"
    if policy == "noeviction":
        assert cache.info("errorstats")["errorstat_OOM"]["count"] > 0, "no write was refused"
    assert (cache.info("stats")["evicted_keys"] > evicted) is (policy == "allkeys-lru")
