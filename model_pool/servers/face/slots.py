"""Sequences at once, and the counts of what came of them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass
class Counts:
    """Generations since the process began; probes and refused requests are none."""

    started: int = 0
    finished: int = 0
    aborted: int = 0
    failed: int = 0

    def as_dict(self) -> dict[str, int]:
        """The body of `/stats`; what has not ended in one of the three ways is in flight."""
        return {**asdict(self), "in_flight": self.started - self.finished - self.aborted - self.failed}


class Slots:
    """So many sequences at once; others wait in the order of their arrival."""

    def __init__(self, limit: int) -> None:
        self.counts = Counts()
        self._free = asyncio.Semaphore(limit)

    @asynccontextmanager
    async def take(self, *, counted: bool) -> AsyncIterator[None]:
        """Count a generation and hold a place for it."""
        counts = self.counts if counted else Counts()
        counts.started += 1
        try:
            async with self._free:
                yield
        except (asyncio.CancelledError, ConnectionError):  # the caller has gone
            counts.aborted += 1
            raise
        except BaseException:
            counts.failed += 1
            raise
        counts.finished += 1
