"""What can be watched: adapters to metrics and logs satisfy this Protocol. Nothing of a request's content passes."""

from __future__ import annotations

from typing import Protocol

from cache.breaker import BreakerState


class CacheObserver(Protocol):
    """Told of each event in the calling thread; must be quick and must not raise."""

    def looked(self, model: str, outcome: str) -> None:
        """A look ended: a `State` (fresh, refresh, stale) or a `Reason` of a miss."""

    def kept(self, model: str, outcome: str, size: int) -> None:
        """An answer was offered: a `Kept` value, and the bytes it takes."""

    def store_failed(self, operation: str, error: str) -> None:
        """A call to the store failed, by the name of the error's class; a call that the breaker held back is none."""

    def breaker_changed(self, state: BreakerState) -> None:
        """This process's breaker around the store is in a new state."""


class Unobserved:
    """Nobody watches."""

    def looked(self, model: str, outcome: str) -> None: ...

    def kept(self, model: str, outcome: str, size: int) -> None: ...

    def store_failed(self, operation: str, error: str) -> None: ...

    def breaker_changed(self, state: BreakerState) -> None: ...
