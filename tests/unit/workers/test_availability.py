"""Whether a GPU worker takes work: never before the fleet has said what is wished of its instance."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisAway

from model_pool.breaker import BreakerState
from model_pool.instance import InstanceState
from model_pool.registry import Heard
from workers.facts import Facts
from workers.gpu_worker import GpuWorker

FACTS = Facts(model="m", slot=0, revision="", engine="paced", device="cpu", capacity=4, server_counts=False)


class Quiet:
    """Stands for every neighbour that has nothing to do here."""

    state = InstanceState.READY
    doubted = False
    pid = 7
    runs = ()
    busy = False

    class spec:  # noqa: N801 -- read as an attribute
        id = "m.0"

    class counts:  # noqa: N801 -- read as an attribute
        started = finished = aborted = tokens = 0

    def __init__(self) -> None:
        self.forwarded: list[tuple[str, str, int]] = []

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def forward(self, *whose: Any) -> int:
        self.forwarded.append(whose)
        return 0


class Fleet:
    """Answers beats once it is there."""

    def __init__(self, *, drained: bool) -> None:
        self._drained = drained
        self.there = asyncio.Event()
        self.asked = asyncio.Event()
        self.beats: list[bool] = []

    async def beat(self, beat: Any) -> Heard:
        self.asked.set()
        if not self.there.is_set():
            raise RedisAway
        self.beats.append(beat.available)
        return Heard(BreakerState.CLOSED, self._drained, 0)


@pytest.mark.parametrize("drained", [True, False])
def test_a_worker_that_boots_without_redis_waits_for_what_operators_wish(drained: bool) -> None:
    async def story() -> None:
        quiet, fleet, told = Quiet(), Fleet(drained=drained), asyncio.Event()
        worker = GpuWorker(
            FACTS, instance=quiet, inference=quiet, work=quiet, flusher=quiet, registry=fleet, reaper=quiet,
            trust=quiet, on_available=lambda _: told.set(), on_fatal=pytest.fail,
        )  # type: ignore[arg-type]  # fmt: skip
        await worker.start()
        worker.state_changed()
        await asyncio.wait_for(fleet.asked.wait(), 10)
        assert (worker.available, told.is_set(), worker._state()) == (False, False, "ready")
        fleet.there.set()
        worker.state_changed()
        while not fleet.beats or fleet.beats[-1] is drained:
            await asyncio.sleep(0)
        assert worker.available is told.is_set() is not drained
        assert bool(quiet.forwarded) is drained, "hints that lie with one that takes nothing are handed on"
        for task in worker._tasks:
            task.cancel()

    asyncio.run(asyncio.wait_for(story(), 30))
