"""A model's line in numbers: how many wait, whose, how long the next one would. O(log n) however many wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import redis

from app.jobs.records import seconds_from
from app.jobs.store import SCRIPTS
from app.lua import Scripts
from app.redis_errors import translated

TIERS = {"0": "priority", "1": "default", "2": "flex"}


@dataclass(frozen=True)
class Line:
    """One model's line.

    Attributes:
        waiting: generations.
        oldest_seconds: how long the one that waits longest has waited.
        places, free_places: of the instances that would take work.
        wait_seconds: expected for one that comes last; None when nobody can say.
        tiers, tenants: generations that wait, of each.
    """

    waiting: int
    oldest_seconds: float
    places: int
    free_places: int
    wait_seconds: float | None
    tiers: dict[str, int] = field(default_factory=dict)
    tenants: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As operators get it."""
        return {
            "waiting": self.waiting,
            "oldest_seconds": self.oldest_seconds,
            "expected_wait_seconds": self.wait_seconds,
            "places": self.places,
            "free_places": self.free_places,
            "tiers": {name: self.tiers.get(name, 0) for name in TIERS.values()},
            "tenants": self.tenants,
        }


class Lines:
    """Reads lines. Redis away raises `QueueUnavailable`."""

    def __init__(self, client: redis.Redis) -> None:
        self._scripts = Scripts(client, SCRIPTS)

    def look(self, model: str) -> Line:
        """The line of a model as it is now."""
        with translated():
            waiting, oldest_ms, places, free, wait_ms, tiers, tenants = self._scripts.call("look", model)
        by_tier = {TIERS[digit]: number for digit, number in _counts(tiers).items()}
        return Line(waiting, oldest_ms / 1000, places, free, seconds_from(wait_ms), by_tier, _counts(tenants))


def _counts(flat: list[str]) -> dict[str, int]:
    return {name: int(number) for name, number in zip(flat[::2], flat[1::2], strict=True)}
