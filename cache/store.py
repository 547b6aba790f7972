"""The outer level of the cache, shared by the fleet: what it must do, and the form that keeps it in Redis.

Keys, all with an expiry from the command that creates them:

    phc:<tenant digest>:<model>:<digest>     one entry, JSON
    phcr:<tenant digest>:<model>:<digest>    the claim of the one request that refreshes the entry early
    phcs:counts                              the fleet's counters, forgotten after 30 days without traffic
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import redis

from cache.keys import CLAIM_PREFIX, CacheKey, Scope

COUNTS = "phcs:counts"
COUNTS_MS = 30 * 86_400 * 1000
_SCAN_COUNT = 500
_MOST_ROUNDS = 20_000


@dataclass(frozen=True, slots=True)
class Cleared:
    """What a clear removed. `complete` is False when it stopped at its limit and should be called again."""

    entries: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Extent:
    """How much the store holds: keys (claims and counters included) and bytes of memory in use."""

    keys: int
    size: int


class EntryStore(Protocol):
    """Texts by key, each with an expiry. Methods raise what the implementation's client raises."""

    def get(self, key: CacheKey) -> str | None:
        """The live text, or None."""

    def put(self, key: CacheKey, text: str, ttl_ms: int) -> None:
        """Keep the text for `ttl_ms` (at least 1, else ValueError), in place of an earlier one."""

    def claim(self, key: CacheKey, ttl_ms: int) -> bool:
        """True for one caller in the fleet until `ttl_ms` (at least 1, else ValueError) have passed."""

    def clear(self, scope: Scope) -> Cleared:
        """Remove the entries of a scope that were there from start to end, a bounded number of keys looked at."""

    def extent(self) -> Extent: ...

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add to the fleet's counters."""

    def counts(self) -> dict[str, int]:
        """The fleet's counters."""


class RedisEntryStore:
    """Entries in Redis 6.2 or later.

    Every call but `clear` is one round trip. Redis errors pass through.

    Args:
        client: with timeouts and without retries; a late command does no harm here.
        most_rounds: how many SCAN steps of 500 keys a `clear` may take.
    """

    def __init__(self, client: redis.Redis, *, most_rounds: int = _MOST_ROUNDS) -> None:
        self._client: Any = client
        self._most_rounds = most_rounds

    def get(self, key: CacheKey) -> str | None:
        return _text(self._client.get(key.name()))

    def put(self, key: CacheKey, text: str, ttl_ms: int) -> None:
        self._client.set(key.name(), text, px=positive(ttl_ms))

    def claim(self, key: CacheKey, ttl_ms: int) -> bool:
        return bool(self._client.set(key.name(CLAIM_PREFIX), 1, px=positive(ttl_ms), nx=True))

    def clear(self, scope: Scope) -> Cleared:
        removed, cursor, pattern = 0, 0, scope.pattern()
        for _ in range(self._most_rounds):
            cursor, names = self._client.scan(cursor, match=pattern, count=_SCAN_COUNT)
            if names:
                removed += self._client.unlink(*names)
            if int(cursor) == 0:
                return Cleared(removed, complete=True)
        return Cleared(removed, complete=False)

    def extent(self) -> Extent:
        pipeline = self._client.pipeline(transaction=False)
        keys, memory = pipeline.dbsize().info("memory").execute()
        return Extent(int(keys), int(memory["used_memory"]))

    def add_counts(self, counts: Mapping[str, int]) -> None:
        pipeline = self._client.pipeline(transaction=True)  # so that the hash is never seen without an expiry
        for name, count in counts.items():
            pipeline.hincrby(COUNTS, name, count)
        pipeline.pexpire(COUNTS, COUNTS_MS)
        pipeline.execute()

    def counts(self) -> dict[str, int]:
        found = self._client.hgetall(COUNTS)
        return {cast("str", _text(name)): int(count) for name, count in found.items()}


def positive(ttl_ms: int) -> int:
    """The expiry, checked: Redis would take none as for ever, and refuses 0."""
    if ttl_ms < 1:
        raise ValueError(f"an expiry of {ttl_ms} ms: nothing is kept without one of at least 1 ms")
    return ttl_ms


def _text(reply: str | bytes | None) -> str | None:
    """A reply as text, whether or not the client decodes."""
    return reply.decode() if isinstance(reply, bytes) else reply
