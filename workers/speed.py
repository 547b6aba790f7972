"""How fast tokens come."""

from __future__ import annotations

import time
from collections.abc import Callable

from model_pool.registry import BEAT_SECONDS


class Speed:
    """Tokens a second, smoothed over the last beats."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._at, self._tokens, self._rate = monotonic(), 0, 0.0

    def of(self, tokens: int) -> float:
        now = self._monotonic()
        seconds = now - self._at
        if seconds >= BEAT_SECONDS / 2:
            self._rate = 0.5 * self._rate + 0.5 * (tokens - self._tokens) / seconds
            self._at, self._tokens = now, tokens
        return self._rate
