"""Everything that this process writes to Redis goes out here, many calls in one round trip.

A tick collects the new tokens of all streams (25 µs a token instead of 163 µs alone); whatever is urgent (the first
token of an answer, a claim, a commit) starts a round at once and takes along what is there. Leases are renewed in
the same rounds, for those runs only whose task lives. When Redis is away the same calls are sent again, unchanged,
until it answers: each of them is safe to repeat.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError

from app.jobs.work import WorkStore
from app.lua import Call
from app.redis import REDIS_AWAY
from workers.run import Run

_RETRY_SECONDS = 0.2
_AWAY = (*REDIS_AWAY, OutOfMemoryError, ReadOnlyError)

_log = structlog.get_logger(__name__)


class Flusher:
    """The writer of one worker process.

    Args:
        work: the store.
        tick: seconds between two collections of tokens.
        renew_every: seconds between two renewals of all leases.
        monotonic: seconds on a clock that only goes forward.
    """

    def __init__(
        self, work: WorkStore, *, tick: float, renew_every: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._work = work
        self._tick = tick
        self._renew_every = renew_every
        self._monotonic = monotonic
        self._runs: dict[str, Run] = {}
        self._queued: list[tuple[Call, asyncio.Future[Any]]] = []
        self._urgent = asyncio.Event()
        self._renewed_at = 0.0
        self._renewing = False  # one at a time: while Redis is away they would pile up
        self._away_since: float | None = None

    @property
    def runs(self) -> list[Run]:
        return list(self._runs.values())

    def add(self, run: Run) -> None:
        if not self._runs:
            self._urgent.set()  # without runs nothing is waited for but calls
        self._runs[run.id] = run

    def remove(self, run: Run) -> None:
        if self._runs.get(run.id) is run:
            del self._runs[run.id]

    def hurry(self) -> None:
        """Start a round now."""
        self._urgent.set()

    async def call(self, call: Call) -> Any:
        """One call in the next round; its reply. Sent again while Redis is away; a cancelled caller is forgotten.

        Raises:
            RedisError: the script itself failed.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queued.append((call, future))
        self._urgent.set()
        return await future

    async def settle(self, run: Run) -> None:
        """Wait until nothing of this run is on its way; afterwards the flusher leaves it alone."""
        run.closing = True
        while run.settled is not None:
            await run.settled

    async def run(self) -> None:
        """Rounds for ever; cancelled at the end of the process."""
        while True:
            await self._wait()
            self._urgent.clear()
            await self._round()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._tick if self._runs or self._queued else None):
                await self._urgent.wait()
        except TimeoutError:
            return

    async def _round(self) -> None:
        sent = self._collect()
        if not sent:
            return
        try:
            replies = await self._work.send([call for call, _ in sent])
        except _AWAY as error:
            await self._away(sent, error)
            return
        again = [each for each, reply in zip(sent, replies, strict=True) if isinstance(reply, _AWAY)]
        for (_, future), reply in zip(sent, replies, strict=True):
            if not isinstance(reply, _AWAY):
                _resolve(future, reply)
        if again:  # Redis answers, and takes no writes: full, or read-only
            await self._away(again, next(r for r in replies if isinstance(r, _AWAY)))
        else:
            self._back()

    def _collect(self) -> list[tuple[Call, asyncio.Future[Any]]]:
        appends = [
            self._append(run) for run in self._runs.values() if run.pending and not run.closing and not run.batch
        ]
        renewal = self._renewal()
        queued, self._queued = self._queued, []
        live = [(call, future) for call, future in queued if not future.done()]
        return appends + live + renewal

    def _append(self, run: Run) -> tuple[Call, asyncio.Future[Any]]:
        run.batch, run.pending = run.pending, []
        new_ids = run.prompt_ids if run.prompt_ids != run.sent_prompt_ids else ()
        run.sent_prompt_ids = run.prompt_ids
        call = self._work.append_call(run.claim, run.sequence, run.batch, new_ids)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        run.settled = loop.create_future()
        future.add_done_callback(lambda reply: self._appended(run, reply))
        return call, future

    def _appended(self, run: Run, reply: asyncio.Future[Any]) -> None:
        written = not reply.cancelled() and reply.exception() is None and reply.result() == 1
        run.sequence += len(run.batch)
        run.batch = []
        settled, run.settled = run.settled, None
        if settled is not None and not settled.done():
            settled.set_result(None)
        if not written:
            _log.info("lease_lost", generation=run.id, when="append")
            run.lose()
        elif run.pending:
            self._urgent.set()

    def _renewal(self) -> list[tuple[Call, asyncio.Future[Any]]]:
        now = self._monotonic()
        alive = [run for run in self._runs.values() if not run.lost and run.task is not None and not run.task.done()]
        if not alive or self._renewing or now - self._renewed_at < self._renew_every:
            return []
        self._renewed_at = now
        self._renewing = True
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asked = {run.id: run for run in alive}
        future.add_done_callback(lambda reply: self._renewed(asked, reply))
        return [(self._work.renew_call([run.claim for run in alive]), future)]

    def _renewed(self, asked: Mapping[str, Run], reply: asyncio.Future[Any]) -> None:
        """What was said of an earlier run of a generation means nothing for one that has begun since."""
        self._renewing = False
        if reply.cancelled() or reply.exception() is not None:
            return
        for generation in reply.result():
            run = asked.get(generation)
            if run is not None and self._runs.get(generation) is run and not run.closing:
                _log.info("lease_lost", generation=generation, when="renew")
                run.lose()

    async def _away(self, sent: list[tuple[Call, asyncio.Future[Any]]], error: Exception) -> None:
        if self._away_since is None:
            self._away_since = self._monotonic()
            _log.warning("redis_away", error=type(error).__name__)
        self._queued = sent + self._queued
        await asyncio.sleep(_RETRY_SECONDS)
        self._urgent.set()

    def _back(self) -> None:
        if self._away_since is not None:
            _log.warning("redis_back", seconds=round(self._monotonic() - self._away_since, 1))
            self._away_since = None


def _resolve(future: asyncio.Future[Any], reply: Any) -> None:
    if future.done():
        return
    if isinstance(reply, RedisError):
        future.set_exception(reply)
    else:
        future.set_result(reply)
