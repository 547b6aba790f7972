"""The worker as a process: how it drains, notices that it no longer consumes, and survives Redis."""

from __future__ import annotations

import signal
from collections.abc import Callable

from app.jobs.events import text_of
from app.jobs.job import Status
from app.queueing import create_celery
from tests.integration.workers.conftest import WorkerUnderTest
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

Make = Callable[..., WorkerUnderTest]
LONG = "{{tokens=200}} word"  # four seconds at 20 ms a token
NO_GRACE = {"drain_grace_seconds": 0}


def running(worker: WorkerUnderTest, job_id: str) -> bool:
    view = worker.store.existing(job_id)
    return view.status is Status.IN_PROGRESS and len(worker.store.log(view.generation)) > 10


def test_a_drain_hands_unfinished_work_back_without_an_attempt_and_the_next_worker_continues_it(
    worker_of: Make,
) -> None:
    worker = worker_of(**NO_GRACE)
    job = worker.send(LONG)
    wait_until(lambda: running(worker, job), what="tokens flow")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(20) == 0
    view = worker.store.existing(job)
    assert (view.status, view.attempts) == (Status.IN_PROGRESS, 0)
    worker.start()
    view = worker.ended(job)
    assert (view.status, view.attempts) == (Status.COMPLETED, 1)
    events = list(worker.store.whole_log(view.generation))
    assert [e.sequence for e in events] == list(range(len(events)))
    assert view.result is not None
    assert text_of(events) == view.result["text"] == " ".join(["word"] * 200)
    assert view.result["usage"]["output_tokens"] == 200


def test_work_that_ends_within_the_grace_period_is_finished(worker_of: Make) -> None:
    worker = worker_of(drain_grace_seconds=20)
    job = worker.send("{{tokens=60}} word")
    wait_until(lambda: running(worker, job), what="tokens flow")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(30) == 0
    assert worker.store.existing(job).status is Status.COMPLETED


def test_a_second_signal_is_obeyed_at_once(worker_of: Make) -> None:
    worker = worker_of(drain_grace_seconds=600)
    job = worker.send(LONG)
    wait_until(lambda: running(worker, job), what="tokens flow")
    worker.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "draining" in worker.text(), what="the drain begins")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(20) == 0
    assert worker.store.existing(job).status is Status.IN_PROGRESS


def test_a_worker_that_is_connected_but_no_longer_consumes_ends_with_a_fault(worker_of: Make) -> None:
    worker = worker_of(not_consuming_seconds=1)
    control = create_celery(worker.settings).control
    for name in ("gpu.paced", "gpu.paced.0"):
        # A broadcast that comes before the worker listens for them is lost, so it is sent until it is answered.
        wait_until(
            lambda name=name: control.cancel_consumer(name, reply=True, timeout=2, limit=1), what=f"{name} is cancelled"
        )
    children = worker.children()
    worker.send("hello")
    assert worker.process.wait(30) == 70
    wait_until(lambda: not any(c.is_running() for c in children), what="the engine is gone too")


def test_a_busy_worker_that_is_killed_leaves_no_engine_and_its_work_is_taken_back(worker_of: Make) -> None:
    worker = worker_of(lease_seconds=2)
    job = worker.send(LONG)
    wait_until(lambda: running(worker, job), what="tokens flow")
    children = worker.children()
    worker.process.kill()
    worker.process.wait(10)
    wait_until(lambda: not any(c.is_running() for c in children), what="the engine is gone too")
    worker.start()
    view = worker.ended(job)
    assert view.status is Status.COMPLETED
    assert text_of(worker.store.whole_log(view.generation)) == " ".join(["word"] * 200)


def test_redis_frozen_for_longer_than_a_lease_costs_neither_answer_nor_attempt(
    worker_of: Make, own_redis: RedisProcess
) -> None:
    worker = worker_of(lease_seconds=2)
    job = worker.send("{{tokens=150}} word")
    wait_until(lambda: running(worker, job), what="tokens flow")
    own_redis.freeze()
    wait_until(lambda: "redis_away" in worker.text(), what="the worker sees it")
    wait_until(lambda: worker.text().count("redis_away") and _later(4), what="longer than a lease", limit=10)
    own_redis.thaw()
    view = worker.ended(job)
    assert (view.status, view.attempts) == (Status.COMPLETED, 1)


def test_a_restart_of_redis_is_survived_by_the_worker(worker_of: Make, own_redis: RedisProcess) -> None:
    worker = worker_of()
    own_redis.kill()
    own_redis.start()
    assert worker.ended(worker.send("hello again"), limit=30).status is Status.COMPLETED


_started: dict[str, float] = {}


def _later(seconds: float) -> bool:
    """True once `seconds` have passed since the first call: how long Redis stays frozen."""
    import time

    return time.monotonic() - _started.setdefault("frozen", time.monotonic()) > seconds
