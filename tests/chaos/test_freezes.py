"""Redis stands still for a minute under load: short, honest answers meanwhile; everything comes back by itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chaos.load import Load
from tests.support.stack import Stack
from tests.support.waiting import wait_until

pytestmark = pytest.mark.chaos

SECONDS = 60
LONGEST_REPLY = 5.0
CONFIG = """
[models.paced]
engine = "paced"
instances = 2
max_concurrency = 16
options = { ttft_ms = 20, tpot_ms = 5 }

[jobs]
lease_seconds = 3
"""


@pytest.fixture
def stack() -> Iterator[Stack]:
    found = Stack(CONFIG)
    yield found
    if found.process.poll() is None:
        found.kill()


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.timeout(400)
def test_a_jobs_redis_that_stands_still_for_a_minute_loses_and_doubles_nothing(stack: Stack) -> None:
    load = Load(stack)
    wait_until(lambda: len(load.accepted) >= 40, what="some load", limit=120)
    api = stack.pid_of("api")
    with frozen(stack.pid_of("redis.jobs")):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            assert stack.ask("GET", "/healthz", key=None).status == 200
            assert stack.ask("GET", "/readyz", key=None).status == 503
            time.sleep(1)
    before = len(load.accepted)
    wait_until(lambda: len(load.accepted) >= before + 40, what="submits are accepted again", limit=60)
    load.stop()
    assert set(load.refused) == {503}
    assert load.unknown == 0
    assert load.slowest < LONGEST_REPLY
    assert {stack.ended(job_id, limit=60)["status"] for job_id in load.accepted} == {"completed"}
    redis = stack.redis()
    assert {key.removeprefix("ph:job:") for key in redis.keys("ph:job:*")} == set(load.accepted)
    assert int(redis.hget("ph:stats:paced", "completed") or 0) == len(load.accepted)
    assert stack.pid_of("api") == api
    assert stack.stop() == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["frozen", "dead"])
def test_a_cache_that_stands_still_or_dies_costs_no_job(stack: Stack, how: str) -> None:
    load = Load(stack, temperature=0)
    wait_until(lambda: len(load.accepted) >= 40, what="some load", limit=120)
    pid = stack.pid_of("redis.cache")
    before = len(load.accepted)
    if how == "frozen":
        with frozen(pid):
            wait_until(lambda: len(load.accepted) >= before + 200, what="load without a cache", limit=120)
    else:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len(load.accepted) >= before + 200, what="load over the cache's death", limit=120)
    load.stop()
    assert (load.refused, load.unknown) == ([], 0)
    assert load.slowest < LONGEST_REPLY
    assert {stack.ended(job_id, limit=60)["status"] for job_id in load.accepted} == {"completed"}
    assert {key.removeprefix("ph:job:") for key in stack.redis().keys("ph:job:*")} == set(load.accepted)
    assert stack.stop() == 0
