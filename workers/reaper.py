"""The reaper's loop: every worker runs it, one Lua step a tick does the work, and a quick second tick does nothing.

A step is short whatever there is to do: it does a bounded part and says that there is more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from redis.exceptions import RedisError

from app.hints import Hints
from app.jobs.work import ReapReport, WorkStore
from app.redis import REDIS_AWAY

_MOST_HINTS = 256
_BREATH = 0.02  # seconds between ticks of a reaper that has more to do: so long Redis serves everybody else

_log = structlog.get_logger(__name__)


class Reaper:
    """Ticks until cancelled. Redis being away is waited out: the script itself notices the gap."""

    def __init__(
        self, work: WorkStore, hints: Hints, tick: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._sleep = sleep
        self._work = work
        self._hints = hints
        self._tick = tick
        self._away = False

    async def run(self) -> None:
        wait = self._tick
        while True:
            await self._sleep(wait)
            wait = self._tick
            try:
                report = await self._work.reap()
            except (*REDIS_AWAY, RedisError) as error:
                self._note_away(error)
                continue
            self._away = False
            await asyncio.to_thread(self._act, report)
            if report.outcome == "more":
                wait = min(_BREATH, self._tick)

    def _note_away(self, error: Exception) -> None:
        if not self._away:
            _log.warning("reaper_waits", error=type(error).__name__)
        self._away = True

    def _act(self, report: ReapReport) -> None:
        if report.taken_back or report.failed or report.past_deadline:
            _log.info("reaped", back=report.taken_back, failed=report.failed, past_deadline=report.past_deadline)
        for model, count in report.hints:
            _log.info("line_hinted_again", model=model, hints=count)
            for _ in range(min(count, _MOST_HINTS)):
                if not self._hints.publish_run(model, "gen_reaped"):
                    return
        if report.webhooks_waiting:
            self._hints.publish_deliver()
