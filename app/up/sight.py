"""What the supervisor sees of the pool while it changes it. A Redis that is away shows nothing; the next look may."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from app.errors import Unavailable
from app.jobs.store import SCRIPTS
from app.lua import Scripts
from app.redis import jobs_client, jobs_server
from app.redis_errors import translated
from app.services.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Collection

    import redis

    from app.sections import RedisSettings

# A drained instance was ready when operators took it out; that it is out is their wish.
_READY = frozenset({"ready", "draining", "drained"})


@dataclass(frozen=True)
class Seen:
    """One model at one moment.

    Attributes:
        slots: those whose instance beats.
        ready: those of them whose engine answers.
        waiting: generations in line.
        running: generations that its instances hold.
    """

    slots: frozenset[int]
    ready: frozenset[int]
    waiting: int
    running: int


class Sight(Protocol):
    """Looks at models in Redis."""

    async def look(self, model: str) -> Seen | None:
        """The model as it is now; None while Redis is away."""
        ...

    async def forget(self, model: str, slots: Collection[int]) -> int | None:
        """Drop what slots that are gone, and a model that is, would leave behind.

        Returns the number of generations that still wait for the model, None while Redis is away.
        """
        ...


class RedisSight:
    """The pool as it stands in the jobs Redis."""

    def __init__(self, settings: RedisSettings) -> None:
        self._client: redis.Redis = jobs_client(jobs_server(settings), timeout=settings.jobs_timeout, max_connections=4)
        self._scripts = Scripts(self._client, SCRIPTS)

    async def look(self, model: str) -> Seen | None:
        return await asyncio.to_thread(self._look, model)

    async def forget(self, model: str, slots: Collection[int]) -> int | None:
        return await asyncio.to_thread(self._forget, model, slots)

    def _look(self, model: str) -> Seen | None:
        try:
            state = Pool(self._client, (model,)).states()[model]
        except Unavailable:
            return None
        by_slot = {int(found["id"].rpartition(".")[2]): found for found in state.instances}
        ready = frozenset(slot for slot, found in by_slot.items() if found["state"] in _READY)
        running = sum(found["in_flight"] for found in by_slot.values())
        return Seen(frozenset(by_slot), ready, state.line.waiting, running)

    def _forget(self, model: str, slots: Collection[int]) -> int | None:
        try:
            with translated():
                return int(self._scripts.call("forget", model, *sorted(slots)))
        except Unavailable:
            return None
