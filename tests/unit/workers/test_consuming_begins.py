"""A worker whose instance was lost between its start and Celery's takes no messages."""

from __future__ import annotations

from typing import Any

import pytest

from app import settings
from tests.support.waiting import wait_until
from workers.facts import Facts
from workers.gpu_process import GpuProcess


class Worker:
    facts = Facts(model="m", slot=0, revision="", engine="paced", device="cpu", capacity=4, server_counts=False)
    in_flight = 0

    def __init__(self, *, available: bool) -> None:
        self.available = self.able = available
        self.asked = False

    async def unhinted_generations(self, _queues: Any) -> int:
        self.asked = True
        return 0

    async def waiting_messages(self, _queues: Any) -> int:
        return 0


class Consumer:
    def __init__(self) -> None:
        self.cancelled: list[str] = []

    def cancel_task_queue(self, name: str) -> None:
        self.cancelled.append(name)

    def call_soon(self, call: Any, *args: Any) -> None:
        call(*args)


@pytest.mark.parametrize("available", [True, False])
def test_only_a_worker_that_may_work_begins_to_consume(available: bool) -> None:
    process = GpuProcess(settings.load(worker={"model": "m"}), hints=None)  # type: ignore[arg-type]
    worker, consumer = Worker(available=available), Consumer()
    process._worker = worker  # type: ignore[assignment]
    process._loop.start()
    process.consuming(consumer)
    wait_until(lambda: worker.asked or len(consumer.cancelled) == 2, what="the worker has made up its mind")
    assert (worker.asked, consumer.cancelled) == ((True, []) if available else (False, ["gpu.m.0", "gpu.m"]))
