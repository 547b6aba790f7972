"""What Flower sees of a run: the events of its task, with a result that names the generation and nothing else."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.queueing import create_celery
from tests.integration.workers.conftest import WorkerUnderTest
from tests.support.waiting import wait_until

Make = Callable[..., WorkerUnderTest]


class Watcher:
    """Reads Celery's events as Flower does."""

    def __init__(self, worker: WorkerUnderTest) -> None:
        self.events: list[dict[str, Any]] = []
        self._stopped = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(create_celery(worker.settings),), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def _read(self, app: Any) -> None:
        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": self.events.append})
            with receiver.consumer_context() as (consuming, _, _):
                self._ready.set()
                while not self._stopped.is_set():
                    with contextlib.suppress(TimeoutError):
                        consuming.drain_events(timeout=0.2)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(5)


@pytest.fixture
def watched(worker_of: Make) -> Iterator[tuple[WorkerUnderTest, Watcher]]:
    worker = worker_of(drain_grace_seconds=20)
    watcher = Watcher(worker)
    yield worker, watcher
    watcher.close()


def test_every_event_of_every_task_arrives_and_says_what_ran(watched: tuple[WorkerUnderTest, Watcher]) -> None:
    worker, watcher = watched
    jobs = [worker.send(f"secret question {n}") for n in range(12)]
    generations = {worker.ended(job).generation for job in jobs}

    def all_told() -> bool:
        """Some tasks may have found the line empty, because others had run what they were hinted at."""
        told = repr([event["result"] for event in watcher.of("task-succeeded")])
        return all(generation in told for generation in generations)

    wait_until(all_told, what="the events of all runs")
    results = [event["result"] for event in watcher.of("task-succeeded")]
    assert all("outcome=completed" in result for result in results if "gen_" in result)
    assert "secret" not in repr(watcher.events)
    assert {event["uuid"] for event in watcher.of("task-started")} >= {e["uuid"] for e in watcher.of("task-succeeded")}


def test_the_events_of_the_last_task_leave_before_the_worker_does(watched: tuple[WorkerUnderTest, Watcher]) -> None:
    worker, watcher = watched
    job = worker.send("{{tokens=30}} word")
    wait_until(lambda: worker.store.existing(job).started_at, what="the run has begun")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(30) == 0
    wait_until(lambda: watcher.of("task-succeeded"), what="the event of the task that ended during the drain")
