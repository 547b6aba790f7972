"""Whether new work may go to the instance right now.

Between a broken stream and the moment when the supervisor has seen why, the instance would swallow one generation
after the other. So a fault closes the gate at once, and an answered probe opens it again; a restarted process answers
one as soon as it is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from model_pool.client import EngineClient

_PROBE_SECONDS = 5.0
_PAUSE_SECONDS = 0.1


class Suspect(Protocol):
    """The instance, as far as its trustworthiness goes."""

    @property
    def client(self) -> EngineClient: ...

    def suspect(self, reason: str) -> None: ...


class Trust:
    """The gate. Belongs to the worker's loop.

    Args:
        horse: the instance.
        on_change: called after each opening and closing.
    """

    def __init__(self, horse: Suspect, on_change: Callable[[], None]) -> None:
        self._horse = horse
        self._on_change = on_change
        self._regaining: asyncio.Task[None] | None = None

    @property
    def doubted(self) -> bool:
        return self._regaining is not None

    def doubt(self, reason: str) -> None:
        """A stream broke, stalled or never began: close the gate until a probe is answered."""
        self._horse.suspect(reason)
        if self._regaining is None:
            self._regaining = asyncio.create_task(self._regain())
            self._on_change()

    async def _regain(self) -> None:
        while not await self._answers():  # noqa: ASYNC110 -- a process that comes back announces nothing
            await asyncio.sleep(_PAUSE_SECONDS)
        self._regaining = None
        self._on_change()

    async def _answers(self) -> bool:
        try:
            await self._horse.client.probe(timeout=_PROBE_SECONDS)
        except Exception:  # noqa: BLE001 -- however a probe fails: a gate that nobody tries any more stays closed
            return False  # the instance, which probes as well, says in the log why
        return True
