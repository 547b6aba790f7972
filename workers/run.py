"""One generation under way in this process: its claim, what it has to write, and where its numbers stand."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from app.jobs.generation import Claim


@dataclass(eq=False)
class Run:
    """State of one claimed generation. Belongs to the worker's loop.

    Attributes:
        sequence: the next free number of the log once everything in `batch` is written.
        began: seconds on the process's monotonic clock.
        pending: event JSON not yet handed to the flusher.
        batch: events on their way to Redis, kept until acknowledged so that they can be sent again unchanged.
        settled: resolves when the batch under way is written; None while there is none.
        prompt_ids: to be recorded with the next batch.
        lost: the lease is gone or nobody wants the answer: write nothing more.
        closing: the verdict is being written; the flusher leaves this run alone.
    """

    claim: Claim
    sequence: int
    began: float = 0.0
    task: asyncio.Task[None] | None = None
    pending: list[str] = field(default_factory=list)
    batch: list[str] = field(default_factory=list)
    settled: asyncio.Future[None] | None = None
    prompt_ids: tuple[int, ...] = ()
    sent_prompt_ids: tuple[int, ...] = ()
    lost: bool = False
    draining: bool = False
    closing: bool = False

    @property
    def id(self) -> str:
        return self.claim.generation

    def lose(self) -> None:
        """Stop the engine's stream: this worker may write nothing more for this generation.

        One that writes its verdict has no stream any more and looks at `lost` by itself.
        """
        self.lost = True
        if self.task is not None and not self.closing:
            self.task.cancel()
