"""How often what happened, over the whole fleet: counted here, added up in the store about once a second."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from cache.errors import StoreUnavailable
from cache.guard import GuardedStore


class Tally:
    """This process's share of the fleet's counters.

    What is counted goes to the store with a later call that finds `every` seconds passed. Counts are worth no wait:
    none is sent while the store is in trouble, and those that it does not take are lost. Safe for threads and
    greenlets.
    """

    def __init__(self, store: GuardedStore, *, monotonic: Callable[[], float], every: float = 1.0) -> None:
        self._store = store
        self._monotonic, self._every = monotonic, every
        self._lock = threading.Lock()
        self._pending: Counter[str] = Counter()
        self._next = monotonic() + every

    def count(self, name: str) -> None:
        """One more of `name`; never raises."""
        with self._lock:
            self._pending[name] += 1
            due = self._monotonic() >= self._next
        if due and self._store.untroubled:
            self.flush()

    def flush(self) -> bool:
        """Send what is pending; False when the store did not take it."""
        with self._lock:
            pending, self._pending = self._pending, Counter()
            self._next = self._monotonic() + self._every
        if not pending:
            return True
        try:
            self._store.add_counts(pending)
        except StoreUnavailable:  # observed by the guard; sent again they might count twice
            return False
        return True
