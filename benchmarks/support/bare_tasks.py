"""No-op tasks that bare Celery publishes and drains at the same time: what a durable queue alone costs."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import redis

from app.queueing import RUN, create_celery, shared_queue
from benchmarks.support import worker
from benchmarks.support.worker import MODEL
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

_LIMIT = 180.0


def published_and_drained(tasks: int, *, workers: int, concurrency: int) -> float:
    """Tasks a second, from the first publish to the last run, in a fresh Redis with `workers` processes.

    They are published one after another by `send_task`, as any Celery client does it, while the workers run.
    """
    server = RedisProcess()
    try:
        with tempfile.TemporaryDirectory(prefix="ph-bench-") as folder:
            config = worker.configure(Path(folder), server.url(), concurrency=concurrency)
            client = server.client()
            with contextlib.ExitStack() as crew:
                running = [crew.enter_context(worker.running(config, worker.BARE_APP, slot=n)) for n in range(workers)]
                wait_until(lambda: _consumers(client) == workers, what="every worker consumes", limit=_LIMIT)
                began = _publish(config, tasks, client)
                running[0].wait(lambda: drained(client), what="the queue is empty", limit=_LIMIT)
            return tasks / (span(client, tasks)[1] - began)
    finally:
        server.close()


def drained(client: redis.Redis) -> bool:
    """Nothing waits and nothing runs."""
    return not client.llen(shared_queue(MODEL)) and not client.hlen("unacked")


def span(client: redis.Redis, tasks: int) -> tuple[float, float]:
    """Unix seconds of the first and of the last of so many tasks, over all workers that have ended."""
    told = [float(part) for part in client.lrange(worker.SPAN_KEY, 0, -1)]
    counts, firsts, lasts = told[0::3], told[1::3], told[2::3]
    if sum(counts) != tasks:
        raise RuntimeError(f"bare Celery ran {sum(counts):.0f} tasks of {tasks}")
    return min(firsts), max(lasts)


def _consumers(client: redis.Redis) -> int:
    return sum(c["cmd"] == "brpop" for c in client.client_list())


def _publish(config: Path, tasks: int, client: redis.Redis) -> float:
    """Returns Redis' time of the first publish."""
    with create_celery(worker.settings_of(config)) as app:
        seconds, micros = client.time()
        for number in range(tasks):
            app.send_task(RUN, args=(MODEL, str(number)), queue=shared_queue(MODEL))
    return seconds + micros / 1e6
