"""A small in-process LRU with lifetimes, bounded by entries and by bytes.

Safe for threads and for greenlets: nothing inside the lock waits for anything, so a greenlet never yields while it
holds it, with or without monkey-patching.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cache.errors import CacheConfigError
from cache.keys import CacheKey, Scope

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Item(Generic[V]):
    value: V
    size: int
    until: float


class LocalLru(Generic[V]):
    """Values by key, the least recently used dropped first.

    Args:
        entries, size: the most items and bytes held; 0 entries hold nothing.
        monotonic: seconds.

    Raises:
        CacheConfigError: a bound is negative.
    """

    def __init__(self, *, entries: int, size: int, monotonic: Callable[[], float]) -> None:
        if entries < 0 or size < 0:
            raise CacheConfigError(f"a local cache of {entries} entries and {size} bytes: give bounds of 0 or more")
        self._most, self._most_bytes = entries, size
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._items: OrderedDict[CacheKey, _Item[V]] = OrderedDict()
        self._bytes = 0

    def get(self, key: CacheKey) -> V | None:
        """The live value, now the most recently used; None when there is none."""
        with self._lock:
            item = self._items.get(key)
            if item is None:
                return None
            if item.until <= self._monotonic():
                self._drop(key)
                return None
            self._items.move_to_end(key)
            return item.value

    def put(self, key: CacheKey, value: V, *, size: int, seconds: float) -> None:
        """Hold the value for `seconds`, in place of an earlier one; one larger than the whole bound is not held."""
        with self._lock:
            self._put(key, value, size, seconds)

    def add(self, key: CacheKey, value: V, *, size: int, seconds: float) -> bool:
        """Like `put`, unless the key has a live value; True when there was none."""
        with self._lock:
            item = self._items.get(key)
            if item is not None and item.until > self._monotonic():
                return False
            self._put(key, value, size, seconds)
            return True

    def clear(self, scope: Scope) -> int:
        """Drop all of a scope; returns how many."""
        with self._lock:
            doomed = [key for key in self._items if scope.covers(key)]
            for key in doomed:
                self._drop(key)
            return len(doomed)

    def extent(self) -> tuple[int, int]:
        """Items and bytes held, those included whose time is over and that nobody has asked for since."""
        with self._lock:
            return len(self._items), self._bytes

    def _put(self, key: CacheKey, value: V, size: int, seconds: float) -> None:
        self._drop(key)
        if size > self._most_bytes or seconds <= 0:
            return
        self._items[key] = _Item(value, size, self._monotonic() + seconds)
        self._bytes += size
        while len(self._items) > self._most or self._bytes > self._most_bytes:
            self._drop(next(iter(self._items)))

    def _drop(self, key: CacheKey) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self._bytes -= item.size
