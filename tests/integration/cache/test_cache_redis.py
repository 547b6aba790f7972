"""The cache on a real Redis that fills up, dies, freezes and comes back, with the client that processes use."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from app.redis import jobs_client
from cache.breaker import BreakerState
from cache.outcomes import Hit, Kept, Miss, Reason, State
from cache.store import RedisEntryStore
from cache.ttl import Lifetime
from tests.support.caches import REQUEST, Desk, answer, desk, key
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

TIMEOUT = 0.05


def process_cache(
    server: RedisProcess, clock: Callable[[], float] = time.time, *, timeout: float = TIMEOUT, **options
) -> Desk:
    return desk(RedisEntryStore(jobs_client(server.url(), timeout=timeout)), clock, **options)


@pytest.fixture
def full_redis() -> Iterator[RedisProcess]:
    server = RedisProcess(args=("--maxmemory", "3mb"))
    yield server
    server.close()


def _seconds(look: Callable[[], object]) -> float:
    began = time.monotonic()
    look()
    return time.monotonic() - began


def test_ten_thousand_answers_do_not_expire_together(own_redis: RedisProcess) -> None:
    """Written within one second of the cache's clock; what the store keeps is spread over the window too."""
    rng, written = random.Random(11), 1_700_000_000.0
    lifetime = Lifetime(ttl=600, jitter=0.2, stale_seconds=0)
    here = process_cache(own_redis, lambda: written, chance=rng.random, lifetime=lifetime)
    client = own_redis.client()
    pipeline = client.pipeline(transaction=False)
    here.store._client = pipeline  # one round trip for all: what is tested is what Redis was told
    for n in range(10_000):
        assert here.cache.keep(key(request={**REQUEST, "n": n}), answer()) is Kept.KEPT
    pipeline.execute()
    names = list(client.scan_iter("phc:*", count=1000))
    for name in names:
        pipeline.pttl(name)
    left = pipeline.execute()
    assert len(left) == 10_000
    assert min(left) > 0
    seconds = Counter(ms // 1000 for ms in left)
    assert max(seconds.values()) <= 200
    assert len(seconds) >= 230


@pytest.mark.parametrize("connected", [True, False])
def test_a_frozen_redis_is_a_miss_after_one_timeout(own_redis: RedisProcess, connected: bool) -> None:
    """Timed as the best of several, because the machine may be busy; a second wait would show in all of them."""
    caches = [process_cache(own_redis) for _ in range(6)]
    if connected:
        for here in caches:
            assert here.cache.look(key()) == Miss(Reason.ABSENT)
    own_redis.freeze()
    times = [_seconds(lambda here=here: here.cache.look(key())) for here in caches]
    assert all(here.watch.looks[-1] == ("m", Reason.UNAVAILABLE) for here in caches)
    assert TIMEOUT * 0.9 < min(times) < TIMEOUT * 1.5


def test_a_frozen_redis_is_asked_three_times_and_found_again(own_redis: RedisProcess) -> None:
    here = process_cache(own_redis)
    assert here.cache.keep(key("u"), answer()) is Kept.KEPT
    own_redis.freeze()
    found = [here.cache.look(key()) for _ in range(200)]
    assert found == [Miss(Reason.UNAVAILABLE)] * 200
    assert [operation for operation, _ in here.watch.failures] == ["get"] * 3
    assert here.cache.keep(key(), answer()) is Kept.UNAVAILABLE
    own_redis.thaw()
    wait_until(lambda: here.cache.look(key()) == Miss(Reason.ABSENT), what="the store is asked again", every=0.2)
    assert here.cache.keep(key(), answer()) is Kept.KEPT
    assert here.watch.states[-1] is BreakerState.CLOSED


def test_a_killed_redis_is_a_miss_and_found_again_without_a_restart(own_redis: RedisProcess) -> None:
    here = process_cache(own_redis)
    assert here.cache.look(key()) == Miss(Reason.ABSENT)
    own_redis.kill()
    assert [here.cache.look(key()) for _ in range(50)] == [Miss(Reason.UNAVAILABLE)] * 50
    assert len(here.watch.failures) == 3
    own_redis.start()
    wait_until(lambda: here.cache.look(key()) == Miss(Reason.ABSENT), what="the store is asked again", every=0.2)


def test_a_full_redis_refuses_answers_and_still_gives_those_it_has(full_redis: RedisProcess) -> None:
    here = process_cache(full_redis)
    assert here.cache.keep(key(), answer()) is Kept.KEPT
    offered = [
        here.cache.keep(key(request={**REQUEST, "n": n}), answer("x" * 100_000)) for n in range(60)
    ]  # fmt: skip
    assert Kept.UNAVAILABLE in offered
    assert {error for _, error in here.watch.failures} == {"OutOfMemoryError"}
    assert here.watch.states == []
    found = process_cache(full_redis).cache.look(key())
    assert isinstance(found, Hit)
    assert found.entry.text == "hello"


def test_a_crowd_of_threads_has_one_refresher(own_redis: RedisProcess) -> None:
    clock_now = [1_700_000_000.0]
    fleet = [process_cache(own_redis, lambda: clock_now[0], timeout=5) for _ in range(4)]
    fleet[0].cache.keep(key(), answer(compute_ms=10_000))
    clock_now[0] += 99
    states: list[str] = []

    def look(here: Desk) -> None:
        for _ in range(25):
            found = here.cache.look(key())
            states.append(found.state if isinstance(found, Hit) else found.reason)

    threads = [threading.Thread(target=look, args=(fleet[n % 4],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert Counter(states) == {State.REFRESH: 1, State.FRESH: 199}


_GREENLETS = """
from gevent import monkey
monkey.patch_all()
import sys, time
import gevent
from app.redis import jobs_client
from cache.store import RedisEntryStore
from tests.support.caches import desk, key

here = desk(RedisEntryStore(jobs_client(sys.argv[1], timeout=0.5)), time.monotonic)
ticks = 0

def tick():
    global ticks
    while True:
        gevent.sleep(0.01)
        ticks += 1

ticker = gevent.spawn(tick)
looks = [gevent.spawn(here.cache.look, key()) for _ in range(40)]
gevent.joinall(looks, timeout=30, raise_error=True)
print(sorted({look.value.reason for look in looks}), ticks >= 5, here.guarded.state)
"""


def test_greenlets_that_wait_for_a_frozen_redis_hold_nobody_up(own_redis: RedisProcess) -> None:
    own_redis.freeze()
    done = subprocess.run(
        [sys.executable, "-c", _GREENLETS, own_redis.url()], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["[<Reason.UNAVAILABLE:", "'unavailable'>]", "True", "open"]
