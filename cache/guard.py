"""The store behind a breaker: one kind of failure, and none that is waited for twice.

Policy: open. A store that fails costs hits, never an answer, so whatever goes wrong becomes `StoreUnavailable`, which
`ResponseCache` takes as a miss. The longest wait is the client's timeout (50 ms by default); with the breaker open
there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import redis

from cache.breaker import Breaker, BreakerState
from cache.errors import StoreUnavailable
from cache.keys import CacheKey, Scope
from cache.observers import CacheObserver
from cache.store import Cleared, EntryStore, Extent

T = TypeVar("T")

# Redis gave no reply. Anything else that it replies with (full, read-only, no permission) is an error too, but comes at
# once and may concern writes alone: no reason to stop asking.
_NO_REPLY = (redis.ConnectionError, redis.TimeoutError, OSError)


class GuardedStore:
    """An `EntryStore` whose methods raise `StoreUnavailable` for all that the store cannot do.

    Args:
        store: the store to guard.
        monotonic: seconds.
        observer: told of failures and of the breaker's states.
        failures, window, pause: see `Breaker`.
    """

    def __init__(
        self,
        store: EntryStore,
        *,
        monotonic: Callable[[], float],
        observer: CacheObserver,
        failures: int = 3,
        window: float = 10,
        pause: float = 5,
    ) -> None:
        self._store = store
        self._observer = observer
        self._breaker = Breaker(
            monotonic=monotonic, changed=observer.breaker_changed, failures=failures, window=window, pause=pause
        )

    @property
    def state(self) -> BreakerState:
        return self._breaker.state

    @property
    def untroubled(self) -> bool:
        """The last call was answered, so that one more is unlikely to wait."""
        return self._breaker.untroubled

    def get(self, key: CacheKey) -> str | None:
        return self._call("get", lambda: self._store.get(key))

    def put(self, key: CacheKey, text: str, ttl_ms: int) -> None:
        self._call("put", lambda: self._store.put(key, text, ttl_ms))

    def claim(self, key: CacheKey, ttl_ms: int) -> bool:
        return self._call("claim", lambda: self._store.claim(key, ttl_ms))

    def clear(self, scope: Scope) -> Cleared:
        return self._call("clear", lambda: self._store.clear(scope))

    def extent(self) -> Extent:
        return self._call("extent", self._store.extent)

    def add_counts(self, counts: Mapping[str, int]) -> None:
        self._call("add_counts", lambda: self._store.add_counts(counts))

    def counts(self) -> dict[str, int]:
        return self._call("counts", self._store.counts)

    def _call(self, operation: str, ask: Callable[[], T]) -> T:
        if not self._breaker.admit():
            raise StoreUnavailable("the cache's store is left alone for a while")
        try:
            answer = ask()
        except _NO_REPLY as error:
            self._breaker.failed()
            raise self._unavailable(operation, error) from error
        except (redis.RedisError, UnicodeDecodeError) as error:
            self._breaker.succeeded()
            raise self._unavailable(operation, error) from error
        except BaseException:
            self._breaker.abandoned()
            raise
        self._breaker.succeeded()
        return answer

    def _unavailable(self, operation: str, error: Exception) -> StoreUnavailable:
        self._observer.store_failed(operation, type(error).__name__)
        return StoreUnavailable(f"the cache's store failed at {operation}: {type(error).__name__}")
