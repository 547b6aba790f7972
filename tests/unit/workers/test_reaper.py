"""When the reaper ticks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisAway

from app.jobs.work import ReapReport
from workers.reaper import Reaper

TICK = 30.0


class Enough(Exception):
    """The test has seen what it wanted."""


class Work:
    """Reports, or raises, what it is told, in this order."""

    def __init__(self, *outcomes: str | Exception) -> None:
        self._outcomes = iter(outcomes)

    async def reap(self) -> ReapReport:
        found = next(self._outcomes, Enough())
        if isinstance(found, Exception):
            raise found
        return ReapReport(found)


def waits(*outcomes: str | Exception) -> list[float]:
    """The seconds that a reaper waits before each of its ticks."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    reaper: Any = Reaper(Work(*outcomes), None, TICK, sleep)  # type: ignore[arg-type]
    with pytest.raises(Enough):
        asyncio.run(reaper.run())
    return slept


def test_what_one_tick_could_not_do_is_done_at_once() -> None:
    first, second, third, fourth, _ = waits("reaped", "more", "more", "reaped")
    assert (first, second, fourth) == (TICK, TICK, third)
    assert third < 1


def test_a_redis_that_goes_away_in_between_is_asked_at_the_usual_pace() -> None:
    assert waits("more", RedisAway(), "held")[2:] == [TICK, TICK]
