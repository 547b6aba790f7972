"""The bridge between Celery's threads and the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from workers.loop import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    thread.start()
    yield thread
    thread.stop()


def test_a_coroutine_gives_its_result_to_the_thread_that_waits(loop: LoopThread) -> None:
    async def doubled(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda n: loop.run(doubled(n)), range(100))) == [2 * n for n in range(100)]


def test_an_exception_and_a_cancellation_reach_the_thread_that_waits(loop: LoopThread) -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ValueError, match="no"):
        loop.run(fails())
    with pytest.raises(asyncio.CancelledError):
        loop.run(cancelled())
