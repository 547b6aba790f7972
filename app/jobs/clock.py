"""Redis' clock, as this process knows it.

"Not after" limits are stated in Redis time, because a command may run long after it was sent. The offset between
this process's monotonic clock and Redis' clock is learnt from replies.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis

_STALE_SECONDS = 60.0


class RedisClock:
    """Estimates Redis' time in ms. Asks Redis (TIME) at first and when nothing was heard for a minute.

    Replies arrive after they were stamped, so the estimate is late rather than early, by at most a round trip: a
    "not after" built on it errs on the side of not running.
    """

    def __init__(self, client: redis.Redis, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._offset_ms: float | None = None
        self._heard_at = 0.0

    def now(self) -> int:
        """Redis' time in ms. Redis errors pass through when it has to be asked."""
        if self._offset_ms is None or self._monotonic() - self._heard_at > _STALE_SECONDS:
            reply: Any = self._client.time()
            self.heard(int(reply[0]) * 1000 + int(reply[1]) // 1000)
        return int(self._monotonic() * 1000 + (self._offset_ms or 0.0))

    def heard(self, redis_ms: int) -> None:
        """A reply carried Redis' time."""
        self._heard_at = self._monotonic()
        self._offset_ms = redis_ms - self._heard_at * 1000
