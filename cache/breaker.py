"""A breaker of this process: whether it is worth asking at all.

Closed: everybody asks. After `failures` in a row within `window` seconds: open, nobody asks for `pause` seconds. Then
one asks; its success closes the breaker, its failure opens it anew. An answer in between breaks the row, because a
store that answers most of the time saves more than it costs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from enum import StrEnum


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """Safe for threads and greenlets; nothing inside the lock waits.

    Args:
        monotonic: seconds.
        changed: told of each new state, outside the lock.
    """

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        changed: Callable[[BreakerState], None],
        failures: int = 3,
        window: float = 10,
        pause: float = 5,
    ) -> None:
        self._monotonic, self._changed = monotonic, changed
        self._window, self._pause = window, pause
        self._lock = threading.Lock()
        self._state = BreakerState.CLOSED
        self._failed_at: deque[float] = deque(maxlen=failures)
        self._next_probe = 0.0

    @property
    def state(self) -> BreakerState:
        return self._state

    @property
    def untroubled(self) -> bool:
        """Closed, and the last answer was a good one."""
        return self._state is BreakerState.CLOSED and not self._failed_at

    def admit(self) -> bool:
        """Whether this caller may ask. One that may then owes `succeeded`, `failed` or `abandoned`."""
        with self._lock:
            if self._state is BreakerState.CLOSED:
                return True
            if self._monotonic() < self._next_probe:
                return False
            # The slot of a prober that never comes back is free again after another pause.
            self._next_probe = self._monotonic() + self._pause
            moved = self._move(BreakerState.PROBING)
        self._tell(moved)
        return True

    def succeeded(self) -> None:
        """The store answered. One that was asked before the breaker opened closes it just as well."""
        if self.untroubled:
            return
        with self._lock:
            self._failed_at.clear()
            moved = self._move(BreakerState.CLOSED)
        self._tell(moved)

    def failed(self) -> None:
        """The store did not answer in time."""
        with self._lock:
            now = self._monotonic()
            self._failed_at.append(now)
            full = len(self._failed_at) == self._failed_at.maxlen and now - self._failed_at[0] <= self._window
            moved = None
            if self._state is BreakerState.PROBING or (full and self._state is BreakerState.CLOSED):
                self._next_probe = now + self._pause
                moved = self._move(BreakerState.OPEN)
        self._tell(moved)

    def abandoned(self) -> None:
        """The caller was stopped before there was an answer; if it was the prober, another may go at once."""
        with self._lock:
            if self._state is BreakerState.PROBING:
                self._next_probe = self._monotonic()

    def _move(self, state: BreakerState) -> BreakerState | None:
        if state is self._state:
            return None
        self._state = state
        return state

    def _tell(self, moved: BreakerState | None) -> None:
        if moved is not None:
            self._changed(moved)
