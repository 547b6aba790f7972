"""How long an answer is fresh: a TTL, spread so that what was written together does not expire together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cache.errors import CacheConfigError

LEAST_SECONDS = 1.0
MOST_SECONDS = 30 * 86_400.0
_MOST_JITTER = 0.9


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The lifetime of one model's answers.

    A freshness is drawn uniformly from `ttl` ± `jitter` and is never under one second: where the window would reach
    below, it is cut off there, not folded onto its edge, so that short lifetimes are spread too.

    Attributes:
        ttl: mean freshness in seconds, over 0 and at most 30 days; less than a second counts as one second.
        jitter: half the window's width as a share of `ttl`, 0 to 0.9. In a window of W seconds a share of 1 / W expires
            in each second.
        stale_seconds: how much longer an answer is kept for times when nobody can give a new one; at most 30 days.

    Raises:
        CacheConfigError: a value is out of its range or not a finite number.
    """

    ttl: float = 600
    jitter: float = 0.2
    stale_seconds: float = 3600

    def __post_init__(self) -> None:
        if not _within(self.ttl, 0, MOST_SECONDS) or self.ttl == 0:
            raise CacheConfigError(f"cache ttl is {self.ttl!r}: give seconds over 0 and at most {MOST_SECONDS:.0f}")
        if not _within(self.jitter, 0, _MOST_JITTER):
            raise CacheConfigError(f"cache jitter is {self.jitter!r}: give a share of the ttl from 0 to {_MOST_JITTER}")
        if not _within(self.stale_seconds, 0, MOST_SECONDS):
            message = f"cache stale_seconds is {self.stale_seconds!r}: give seconds from 0 to {MOST_SECONDS:.0f}"
            raise CacheConfigError(message)

    def fresh_seconds(self, chance: float) -> float:
        """The freshness of one answer in seconds; `chance` is uniform in [0, 1)."""
        mean = max(self.ttl, LEAST_SECONDS)
        shortest = max(mean * (1 - self.jitter), LEAST_SECONDS)
        return shortest + (mean * (1 + self.jitter) - shortest) * chance

    def kept_ms(self, fresh_seconds: float) -> int:
        """How long the store keeps an answer of that freshness, in whole milliseconds, at least 1000."""
        return math.ceil((fresh_seconds + self.stale_seconds) * 1000)


def _within(value: float, least: float, most: float) -> bool:
    return not isinstance(value, bool) and least <= value <= most  # NaN is in no range
