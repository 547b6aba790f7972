"""What callers of the cache may rely on, with set clocks and stores that fail on command."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cache.breaker import BreakerState
from cache.directives import Directives, parse
from cache.errors import CacheConfigError, StoreUnavailable
from cache.keys import Scope
from cache.memory_store import MemoryEntryStore
from cache.outcomes import Hit, Kept, Miss, Reason, State
from cache.response_cache import CacheLimits
from cache.store import Cleared
from cache.ttl import Lifetime
from tests.support.caches import AWAY, Clock, Desk, Faulty, answer, desk, key


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Faulty:
    return Faulty(monotonic=clock)


@pytest.fixture
def here(store: Faulty, clock: Clock) -> Desk:
    return desk(store, clock)


def text_of(found: Hit | Miss) -> str:
    assert isinstance(found, Hit), found
    return found.entry.text


def test_an_answer_comes_back_with_its_age(here: Desk, clock: Clock) -> None:
    assert here.cache.look(key()) == Miss(Reason.ABSENT)
    assert here.cache.keep(key(), answer()) is Kept.KEPT
    clock.advance(12.7)
    found = here.cache.look(key())
    assert isinstance(found, Hit)
    assert (found.state, found.age, found.entry.text, found.entry.usage.output_tokens) == (State.FRESH, 12, "hello", 5)


def test_other_processes_find_it(here: Desk, store: Faulty, clock: Clock) -> None:
    here.cache.keep(key(), answer())
    assert text_of(desk(store, clock).cache.look(key())) == "hello"


def test_other_tenants_do_not(here: Desk) -> None:
    here.cache.keep(key("t"), answer())
    assert here.cache.look(key("u")) == Miss(Reason.ABSENT)


def test_after_a_swap_of_the_model_old_answers_are_out_of_reach(here: Desk) -> None:
    here.cache.keep(key(), answer())
    assert here.cache.look(key(revision="r2")) == Miss(Reason.ABSENT)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        *(({"finish_reason": reason}, Kept.UNFINISHED) for reason in ("length", "tool_calls", "error", "abort", "")),
        *(({"text": text}, Kept.EMPTY) for text in ("", " ", "\n\t")),
        ({"continued": True}, Kept.CONTINUED),
        ({"model": "fallback"}, Kept.OTHER_MODEL),
        ({"revision": "r2"}, Kept.OTHER_MODEL),
        ({"text": "x" * 1_100_000}, Kept.TOO_LARGE),
        ({"text": "\ud800"}, Kept.UNENCODABLE),
    ],
)
def test_only_complete_good_answers_of_the_model_are_kept(here: Desk, changes: dict[str, Any], outcome: Kept) -> None:
    assert here.cache.keep(key(), answer(**changes)) is outcome
    assert here.cache.look(key()) == Miss(Reason.ABSENT)
    assert here.store.extent().keys == 0
    assert here.watch.keeps[0][:2] == ("m", outcome)


@pytest.mark.parametrize(
    ("header", "seconds", "expected"),
    [
        ("", 99, State.FRESH),
        ("no-cache", 1, Reason.BYPASS),
        ("no-store", 1, Reason.BYPASS),
        ("no-cache, only-if-cached", 1, Reason.BYPASS),
        ("max-age=10", 10, State.FRESH),
        ("max-age=10", 10.1, Reason.TOO_OLD),
        ("max-age=0", 0, Reason.TOO_OLD),
        ("only-if-cached", 99, State.FRESH),
        ("", 100, State.STALE),
        ("", 149, State.STALE),
        ("", 150, Reason.ABSENT),
        ("only-if-cached", 100, Reason.EXPIRED),
        ("max-age=1000", 100, Reason.EXPIRED),
    ],
)
def test_directives_and_ages(store: Faulty, clock: Clock, header: str, seconds: float, expected: str) -> None:
    writer = desk(store, clock)
    writer.cache.keep(key(), answer(compute_ms=0))
    clock.advance(seconds)
    for reader in (writer, desk(store, clock)):
        found = reader.cache.look(key(), parse(header))
        assert (found.state if isinstance(found, Hit) else found.reason) == expected
        assert reader.watch.looks == [("m", expected)]


def test_a_clock_that_is_behind_makes_no_negative_age(here: Desk, clock: Clock) -> None:
    here.cache.keep(key(), answer())
    clock.advance(-5)
    found = here.cache.look(key(), Directives(max_age=1))
    assert isinstance(found, Hit)
    assert found.age == 0


def test_one_request_of_the_fleet_renews_a_hot_answer(store: Faulty, clock: Clock) -> None:
    rng = random.Random(3)
    fleet = [desk(store, clock, chance=rng.random) for _ in range(4)]
    lived = fleet[0].cache
    assert lived.keep(key(), answer(compute_ms=2_000)) is Kept.KEPT
    clock.advance(80)
    states = []
    for n in range(4_000):
        found = fleet[n % 4].cache.look(key())
        assert isinstance(found, Hit)
        states.append(found.state)
        clock.advance(0.00495)
    assert states.count(State.REFRESH) in {1, 2, 3, 4, 5}
    assert set(states) == {State.FRESH, State.REFRESH}


def test_a_burst_in_the_last_moment_has_one_refresher_and_no_miss(store: Faulty, clock: Clock) -> None:
    fleet = [desk(store, clock) for _ in range(4)]
    fleet[0].cache.keep(key(), answer())
    clock.advance(99.9)
    found = [fleet[n % 4].cache.look(key()) for n in range(1000)]
    states = [f.state for f in found if isinstance(f, Hit)]
    assert (states.count(State.REFRESH), states.count(State.FRESH)) == (1, 999)


def test_when_the_refresher_dies_another_takes_over(store: Faulty, clock: Clock) -> None:
    cache = desk(store, clock).cache
    cache.keep(key(), answer(compute_ms=20_000))
    clock.advance(50)

    def state() -> State:
        found = cache.look(key())
        assert isinstance(found, Hit)
        return found.state

    def eager() -> float:
        return 1 - 2**-53

    cache = desk(store, clock, chance=eager).cache
    assert [state(), state()] == [State.REFRESH, State.FRESH]
    clock.advance(39)
    assert state() is State.FRESH
    clock.advance(1)
    assert state() is State.REFRESH


def test_who_may_only_have_cached_answers_is_not_chosen_to_renew(here: Desk, clock: Clock) -> None:
    here.cache.keep(key(), answer())
    clock.advance(99.9)
    only = here.cache.look(key(), parse("only-if-cached"))
    other = here.cache.look(key())
    assert isinstance(only, Hit)
    assert isinstance(other, Hit)
    assert (only.state, other.state) == (State.FRESH, State.REFRESH)


def test_other_processes_see_a_renewed_answer_within_their_copies_time(store: Faulty, clock: Clock) -> None:
    reader, writer = desk(store, clock), desk(store, clock)
    writer.cache.keep(key(), answer("old"))
    assert text_of(reader.cache.look(key())) == "old"
    writer.cache.keep(key(), answer("new"))
    clock.advance(2)
    assert text_of(reader.cache.look(key())) == "new"


def test_a_copy_that_expires_is_looked_for_outside_at_once(store: Faulty, clock: Clock) -> None:
    reader, writer = desk(store, clock), desk(store, clock)
    writer.cache.keep(key(), answer("old"))
    clock.advance(99)
    assert text_of(reader.cache.look(key(), parse("only-if-cached"))) == "old"
    writer.cache.keep(key(), answer("new"))
    clock.advance(1)
    assert text_of(reader.cache.look(key(), parse("only-if-cached"))) == "new"


def test_copies_spare_the_store(here: Desk, store: Faulty) -> None:
    here.cache.keep(key(), answer())
    before = store.calls
    for _ in range(100):
        here.cache.look(key())
    assert store.calls == before


def test_an_entry_of_another_version_is_a_miss_and_is_replaced(here: Desk, store: Faulty) -> None:
    store.put(key(), '{"version":2,"entry":{}}', 1000)
    assert here.cache.look(key()) == Miss(Reason.UNREADABLE)
    here.cache.keep(key(), answer())
    assert text_of(here.cache.look(key())) == "hello"


def test_a_dead_store_is_a_miss_and_after_three_not_even_asked(here: Desk, store: Faulty, clock: Clock) -> None:
    store.fault = AWAY
    found = [here.cache.look(key()) for _ in range(20)]
    assert found == [Miss(Reason.UNAVAILABLE)] * 20
    assert here.cache.keep(key(), answer()) is Kept.UNAVAILABLE
    assert store.calls == 3
    store.fault = None
    clock.advance(5)
    assert here.cache.look(key()) == Miss(Reason.ABSENT)
    assert here.cache.keep(key(), answer()) is Kept.KEPT
    assert here.watch.states == [BreakerState.OPEN, BreakerState.PROBING, BreakerState.CLOSED]


def test_a_dead_store_takes_no_copy_away(here: Desk, store: Faulty) -> None:
    here.cache.keep(key(), answer())
    store.fault = AWAY
    assert text_of(here.cache.look(key())) == "hello"


def test_a_dead_store_keeps_nobody_from_a_fresh_answer_that_is_due(here: Desk, store: Faulty, clock: Clock) -> None:
    here.cache.keep(key(), answer())
    clock.advance(99.0)
    here.cache.look(key())
    clock.advance(0.9)
    store.fault = AWAY
    found = here.cache.look(key())
    assert isinstance(found, Hit)
    assert found.state is State.FRESH


def test_a_look_never_waits_twice_for_a_dead_store(here: Desk, store: Faulty, clock: Clock) -> None:
    """The counters are due as well, but stay where they are."""
    clock.advance(10)
    store.fault = AWAY
    here.cache.look(key())
    assert store.calls == 1


def test_clear_forgets_a_scope_here_and_outside(here: Desk) -> None:
    here.cache.keep(key("t"), answer())
    here.cache.keep(key("u"), answer())
    assert here.cache.clear(Scope(tenant="t")).entries == 1
    assert here.cache.look(key("t")) == Miss(Reason.ABSENT)
    assert text_of(here.cache.look(key("u"))) == "hello"


def test_a_clear_that_failed_says_so_and_took_the_copies_along(clock: Clock) -> None:
    class Dead(MemoryEntryStore):
        def clear(self, scope: Scope) -> Cleared:  # noqa: ARG002 -- the signature is the store's
            raise AWAY

    here = desk(Dead(monotonic=clock), clock)
    here.cache.keep(key(), answer())
    with pytest.raises(StoreUnavailable):
        here.cache.clear(Scope())
    assert here.cache.stats().local_entries == 0


def test_a_look_during_a_clear_leaves_no_copy_behind(clock: Clock) -> None:
    class Slow(MemoryEntryStore):
        def clear(self, scope: Scope) -> Cleared:
            assert text_of(here.cache.look(key())) == "hello"
            return super().clear(scope)

    here = desk(Slow(monotonic=clock), clock)
    here.cache.keep(key(), answer())
    here.cache.clear(Scope())
    assert here.cache.look(key()) == Miss(Reason.ABSENT)


def test_statistics_are_the_fleets(store: Faulty, clock: Clock) -> None:
    one, two = desk(store, clock), desk(store, clock)
    one.cache.look(key())
    one.cache.keep(key(), answer())
    one.cache.keep(key(), answer(text=""))
    two.cache.look(key())
    two.cache.look(key(), parse("no-cache"))
    clock.advance(99.9)
    two.cache.look(key())
    clock.advance(1)
    two.cache.look(key())
    two.cache.stats()
    found = one.cache.stats()
    assert found.available
    assert found.counts == {"misses": 1, "kept": 1, "refused": 1, "hits": 1, "bypass": 1, "refreshes": 1, "stale": 1}
    assert (found.keys, found.breaker) == (2, BreakerState.CLOSED)
    assert found.size > 100
    assert found.local_entries == 1


def test_counters_travel_with_ordinary_traffic(here: Desk, store: Faulty, clock: Clock) -> None:
    here.cache.look(key())
    assert store.counts() == {}
    clock.advance(1)
    here.cache.look(key())
    assert store.counts() == {"misses": 2}


def test_statistics_of_a_dead_store_are_those_of_this_process(here: Desk, store: Faulty) -> None:
    here.cache.keep(key(), answer())
    store.fault = AWAY
    found = here.cache.stats()
    assert (found.available, found.local_entries, found.counts, found.keys) == (False, 1, {}, 0)


def test_failures_are_counted_as_errors(here: Desk, store: Faulty) -> None:
    store.fault = AWAY
    here.cache.look(key())
    here.cache.keep(key(), answer())
    store.fault = None
    assert here.cache.stats().counts == {"errors": 2}


def test_lifetimes_are_the_models_own(store: Faulty, clock: Clock) -> None:
    cache = desk(store, clock, lifetime=Lifetime(ttl=5, jitter=0, stale_seconds=0)).cache
    cache.keep(key(), answer())
    cache.keep(key(model="n"), answer(model="n"))
    clock.advance(6)
    assert cache.look(key()) == Miss(Reason.ABSENT)
    assert text_of(cache.look(key(model="n"))) == "hello"


@pytest.mark.parametrize("limits", [{"entry_bytes": 0}, {"local_seconds": 5}, {"local_seconds": -1}, {"beta": 11}])
def test_absurd_limits_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(CacheConfigError, match=next(iter(limits))):
        CacheLimits(**limits)
