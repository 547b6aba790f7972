"""What the cache relies on in its store: on real Redis, on the oldest supported one, and on the twin."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from cache.keys import CacheKey, Scope
from cache.memory_store import MemoryEntryStore
from cache.store import Cleared, EntryStore, RedisEntryStore
from tests.support.caches import REQUEST, key
from tests.support.waiting import wait_until

LONG = 60_000


@dataclass
class Shelf:
    """A store, and the Redis client below it where there is one."""

    store: EntryStore
    client: Any = None

    def keys_for_ever(self) -> list[str]:
        """Redis keys that have no expiry."""
        if self.client is None:
            return []
        return [name for name in self.client.scan_iter() if self.client.pttl(name) < 0]


@pytest.fixture(params=["real", "real undecoded", "floor", "twin"])
def shelf(request: pytest.FixtureRequest) -> Shelf:
    if request.param == "twin":
        return Shelf(MemoryEntryStore(monotonic=time.monotonic))
    url: str = request.getfixturevalue("redis_url")
    if request.param == "floor":
        url = request.getfixturevalue("oldest_redis").url(int(url.rsplit("/", 1)[1]))
    client = redis.Redis.from_url(url, decode_responses=request.param != "real undecoded", protocol=2)
    return Shelf(RedisEntryStore(client), client)


def many(count: int, tenant: str = "t", model: str = "m") -> list[CacheKey]:
    return [key(tenant, model, request={**REQUEST, "n": n}) for n in range(count)]


def test_a_text_comes_back_as_it_went_in(shelf: Shelf) -> None:
    assert shelf.store.get(key()) is None
    shelf.store.put(key(), '{"x":"hé 馬\\n"}', LONG)
    assert shelf.store.get(key()) == '{"x":"hé 馬\\n"}'


def test_a_later_text_replaces_an_earlier_one(shelf: Shelf) -> None:
    shelf.store.put(key(), "a", LONG)
    shelf.store.put(key(), "b", LONG)
    assert shelf.store.get(key()) == "b"


def test_a_text_goes_when_its_time_is_over(shelf: Shelf) -> None:
    shelf.store.put(key(), "a", 30)
    wait_until(lambda: shelf.store.get(key()) is None, what="the text is gone")


def test_a_replacement_brings_its_own_time(shelf: Shelf) -> None:
    shelf.store.put(key(), "a", LONG)
    shelf.store.put(key(), "b", 30)
    wait_until(lambda: shelf.store.get(key()) is None, what="the text is gone")


@pytest.mark.parametrize("ttl", [0, -1])
def test_nothing_is_kept_or_claimed_without_an_expiry(shelf: Shelf, ttl: int) -> None:
    with pytest.raises(ValueError, match="at least 1 ms"):
        shelf.store.put(key(), "a", ttl)
    with pytest.raises(ValueError, match="at least 1 ms"):
        shelf.store.claim(key(), ttl)
    assert shelf.store.get(key()) is None
    assert shelf.store.claim(key(), LONG)


def test_no_key_is_for_ever(shelf: Shelf) -> None:
    shelf.store.put(key(), "a", LONG)
    shelf.store.claim(key(), LONG)
    shelf.store.add_counts({"hits": 1})
    assert shelf.keys_for_ever() == []


def test_a_claim_is_one_callers_until_it_ends(shelf: Shelf) -> None:
    assert [shelf.store.claim(key(), LONG) for _ in range(3)] == [True, False, False]
    assert shelf.store.claim(key("u"), 30)
    wait_until(lambda: shelf.store.claim(key("u"), 30), what="the claim is free again")


def test_a_claim_is_no_entry(shelf: Shelf) -> None:
    shelf.store.claim(key(), LONG)
    assert shelf.store.get(key()) is None
    assert shelf.store.clear(Scope()) == Cleared(0, complete=True)


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        (Scope(), []),
        (Scope(tenant="t"), ["um", "u*"]),
        (Scope(model="m"), ["t*", "u*"]),
        (Scope(model="*"), ["tm", "um"]),
        (Scope("t", "m"), ["t*", "um", "u*"]),
        (Scope(tenant="*"), ["tm", "t*", "um", "u*"]),
        (Scope(model="nobody's"), ["tm", "t*", "um", "u*"]),
    ],
)
def test_clear_removes_a_scope_and_nothing_else(shelf: Shelf, scope: Scope, left: list[str]) -> None:
    pairs = ["tm", "t*", "um", "u*"]
    for tenant, model in pairs:
        shelf.store.put(key(tenant, model), "x", LONG)
    assert shelf.store.clear(scope) == Cleared(4 - len(left), complete=True)
    assert [p for p in pairs if shelf.store.get(key(p[0], p[1])) is not None] == left


def test_clear_goes_through_all_of_a_large_store(shelf: Shelf) -> None:
    mine, others = many(1500), many(20, "u")
    for one in mine + others:
        shelf.store.put(one, "x", LONG)
    assert shelf.store.clear(Scope(tenant="t")) == Cleared(1500, complete=True)
    assert all(shelf.store.get(one) is None for one in mine)
    assert all(shelf.store.get(one) == "x" for one in others)


def test_a_clear_stops_at_its_limit_and_says_so(shelf: Shelf) -> None:
    if shelf.client is None:
        pytest.skip("the twin holds few enough entries to clear them in one step")
    for one in many(2000):
        shelf.store.put(one, "x", LONG)
    short = RedisEntryStore(shelf.client, most_rounds=1)
    first = short.clear(Scope())
    assert not first.complete
    assert 0 < first.entries < 2000
    assert shelf.store.clear(Scope()) == Cleared(2000 - first.entries, complete=True)


def test_clear_leaves_strangers_alone(shelf: Shelf) -> None:
    if shelf.client is None:
        pytest.skip("nobody else has keys in the twin")
    shelf.client.set("somebody", "else's", px=LONG)
    shelf.store.clear(Scope())
    assert shelf.client.exists("somebody")


def test_the_extent_grows_with_what_is_kept(shelf: Shelf) -> None:
    before = shelf.store.extent()
    for one in many(50):
        shelf.store.put(one, "x" * 10_000, LONG)
    after = shelf.store.extent()
    assert after.keys - before.keys == 50
    assert after.size - before.size >= 400_000


def test_counts_add_up(shelf: Shelf) -> None:
    assert shelf.store.counts() == {}
    shelf.store.add_counts({"hits": 2, "misses": 1})
    shelf.store.add_counts({"hits": 3})
    assert shelf.store.counts() == {"hits": 5, "misses": 1}
