"""The store's in-memory twin, for tests and for a single process without a cache Redis."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping

from cache.keys import CacheKey, Scope
from cache.local import LocalLru
from cache.store import Cleared, Extent, positive


class MemoryEntryStore:
    """An `EntryStore` in this process, bounded like a Redis that evicts what was least recently used.

    Args:
        entries, size: the most entries and bytes held.
        monotonic: seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float], entries: int = 10_000, size: int = 64 * 1024 * 1024) -> None:
        self._texts: LocalLru[str] = LocalLru(entries=entries, size=size, monotonic=monotonic)
        self._claims: LocalLru[bool] = LocalLru(entries=entries, size=size, monotonic=monotonic)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def get(self, key: CacheKey) -> str | None:
        return self._texts.get(key)

    def put(self, key: CacheKey, text: str, ttl_ms: int) -> None:
        self._texts.put(key, text, size=len(text.encode()), seconds=positive(ttl_ms) / 1000)

    def claim(self, key: CacheKey, ttl_ms: int) -> bool:
        return self._claims.add(key, True, size=1, seconds=positive(ttl_ms) / 1000)

    def clear(self, scope: Scope) -> Cleared:
        return Cleared(self._texts.clear(scope), complete=True)

    def extent(self) -> Extent:
        (entries, size), (claims, _) = self._texts.extent(), self._claims.extent()
        return Extent(entries + claims, size)

    def add_counts(self, counts: Mapping[str, int]) -> None:
        with self._lock:
            self._counts.update(counts)

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)
