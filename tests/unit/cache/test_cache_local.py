"""The in-process level stays within its bounds, whoever uses it at the same time."""

from __future__ import annotations

import random
import threading

import gevent
import pytest
from gevent.pool import Group
from hypothesis import given
from hypothesis import strategies as st

from cache.errors import CacheConfigError
from cache.keys import CacheKey, Scope
from cache.local import LocalLru
from tests.support.caches import Clock, key


def at(number: int) -> CacheKey:
    return CacheKey("t" * 16, "m", "r", f"{number:064x}")


def lru(entries: int = 3, size: int = 100, clock: Clock | None = None) -> LocalLru[str]:
    return LocalLru(entries=entries, size=size, monotonic=clock or Clock())


def test_the_least_recently_used_goes_first() -> None:
    cache = lru()
    for n in range(3):
        cache.put(at(n), str(n), size=1, seconds=9)
    assert cache.get(at(0)) == "0"
    cache.put(at(3), "3", size=1, seconds=9)
    assert [cache.get(at(n)) for n in range(4)] == ["0", None, "2", "3"]


def test_bytes_are_bounded_as_entries_are() -> None:
    cache = lru(size=10)
    cache.put(at(0), "a", size=6, seconds=9)
    cache.put(at(1), "b", size=5, seconds=9)
    assert (cache.get(at(0)), cache.get(at(1)), cache.extent()) == (None, "b", (1, 5))


def test_one_that_is_too_large_displaces_nothing_but_its_predecessor() -> None:
    cache = lru(size=10)
    cache.put(at(0), "a", size=4, seconds=9)
    cache.put(at(1), "b", size=4, seconds=9)
    cache.put(at(1), "B", size=11, seconds=9)
    assert (cache.get(at(0)), cache.get(at(1)), cache.extent()) == ("a", None, (1, 4))


def test_a_value_lives_for_its_time() -> None:
    clock = Clock()
    cache = lru(clock=clock)
    cache.put(at(0), "a", size=1, seconds=2)
    clock.advance(1.9)
    assert cache.get(at(0)) == "a"
    clock.advance(0.1)
    assert cache.get(at(0)) is None
    assert cache.extent() == (0, 0)


def test_add_respects_a_live_value_only() -> None:
    clock = Clock()
    cache = lru(clock=clock)
    assert cache.add(at(0), "a", size=1, seconds=2)
    assert not cache.add(at(0), "b", size=1, seconds=2)
    clock.advance(2)
    assert cache.add(at(0), "c", size=1, seconds=2)
    assert cache.get(at(0)) == "c"


def test_clear_takes_a_scope_and_no_more() -> None:
    cache = lru()
    mine, other = key("t"), key("u")
    cache.put(mine, "a", size=1, seconds=9)
    cache.put(other, "b", size=2, seconds=9)
    assert cache.clear(Scope(tenant="t")) == 1
    assert (cache.get(mine), cache.get(other), cache.extent()) == (None, "b", (1, 2))


def test_no_entries_is_no_cache() -> None:
    cache = lru(entries=0)
    cache.put(at(0), "a", size=1, seconds=9)
    assert (cache.get(at(0)), cache.extent()) == (None, (0, 0))


@pytest.mark.parametrize(("entries", "size"), [(-1, 1), (1, -1)])
def test_negative_bounds_are_refused(entries: int, size: int) -> None:
    with pytest.raises(CacheConfigError, match="bounds of 0 or more"):
        lru(entries, size)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12), st.floats(0, 3)), max_size=40))
def test_bounds_hold_under_any_history(puts: list[tuple[int, int, float]]) -> None:
    clock = Clock(0)
    cache = lru(3, 10, clock)
    for number, size, seconds in puts:
        cache.put(at(number), str(number), size=size, seconds=seconds)
        clock.advance(0.5)
        entries, held = cache.extent()
        assert entries <= 3
        assert held <= 10
        assert all(cache.get(at(n)) in {None, str(n)} for n in range(6))
    clock.advance(10)
    assert all(cache.get(at(n)) is None for n in range(6))
    assert cache.extent() == (0, 0)


def _hammer(cache: LocalLru[str], seed: int, rounds: int, rest: float | None) -> None:
    rng = random.Random(seed)
    for _ in range(rounds):
        number = rng.randrange(20)
        cache.put(at(number), "x" * number, size=number, seconds=9)
        found = cache.get(at(rng.randrange(20)))
        assert found is None or len(found) < 20
        if rng.random() < 0.02:
            cache.clear(Scope())
        if rest is not None:
            gevent.sleep(rest)


def _check(cache: LocalLru[str]) -> None:
    """The books are right: what is held adds up to the bytes counted."""
    entries, held = cache.extent()
    values = [v for n in range(20) if (v := cache.get(at(n))) is not None]
    assert (len(values), sum(map(len, values))) == (entries, held)
    assert entries <= 8
    assert held <= 60


def test_threads_keep_the_books_right() -> None:
    cache = lru(8, 60)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            _hammer(cache, seed, 500, None)
        except BaseException as error:  # noqa: BLE001 -- a thread's failure is shown by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
    _check(cache)


def test_greenlets_never_wait_for_one_another() -> None:
    """With the plain lock of an unpatched process, a greenlet that yielded inside it would hang the thread."""
    cache = lru(8, 60)
    group = Group()
    greenlets = [group.spawn(_hammer, cache, seed, 50, 0) for seed in range(20)]
    gevent.joinall(greenlets, timeout=30, raise_error=True)
    assert all(g.successful() for g in greenlets)
    _check(cache)
