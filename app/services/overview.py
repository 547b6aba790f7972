"""Everything that `posthouse top` shows, read in one go; parts that do not answer are empty, and said so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from app.errors import Unavailable
from app.services.pool import ModelState, Pool
from app.services.storage import Storage
from cache.outcomes import CacheStats


@dataclass(frozen=True)
class Overview:
    """One look at the house.

    Attributes:
        away: why there is nothing to see; empty when the jobs Redis answered.
        models, totals, hints: see `app.services.pool.Pool`.
        cache: what the response cache holds and did.
        memory: see `Storage.ratios`.
    """

    away: str
    cache: CacheStats
    memory: dict[str, float]
    models: dict[str, ModelState] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)


class Overviews:
    """Takes looks; never raises because Redis is away."""

    def __init__(self, pool: Pool, storage: Storage, cache_stats: Callable[[], CacheStats]) -> None:
        self._pool = pool
        self._storage = storage
        self._cache_stats = cache_stats

    def look(self) -> Overview:
        """The house as it is now."""
        cache, memory = self._cache_stats(), self._storage.ratios()
        try:
            return Overview("", cache, memory, self._pool.states(), self._pool.totals(), self._pool.hints())
        except Unavailable as error:
            return Overview(error.message, cache, memory)
