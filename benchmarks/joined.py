"""10,000 jobs that share one generation, each with a webhook: how long Redis is kept by what settles them.

The jobs join while the generation waits in line. Then it runs and ends, and the webhook worker makes 10,000 deliveries
and sends them. Their deadlines, which nobody needs any more, all come due at once afterwards. In the end as many jobs
of another generation, which still waits, are past their deadlines at once.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http import HTTPStatus

from app.jobs.accepting import QueueCaps
from app.jobs.generation import CanonicalRequest, NewGeneration, new_generation_id
from app.jobs.job import Kind, NewJob, Status, Webhook, new_job_id
from app.jobs.store import JobStore
from benchmarks.support.figures import Figure, Outcome
from benchmarks.support.prober import Prober
from benchmarks.support.progress import Progress
from benchmarks.support.slow_log import Slow, SlowLog
from tests.support.receiver import Receiver
from tests.support.stack import Stack
from tests.support.waiting import wait_until

MODEL = "paced"
JOBS = 10_000
LONGEST_MS = 5.0
CONFIG = f"""
[models.{MODEL}]
engine = "paced"
options = {{ ttft_ms = 0, tpot_ms = 0 }}

[webhooks]
allow_hosts = ["127.0.0.1"]
per_host = 64
"""


def measure(progress: Progress, *, jobs: int = JOBS) -> Outcome:
    """All phases on one stack."""
    progress("the stack starts")
    receiver, stack = Receiver(), Stack(CONFIG)
    try:
        alone = _let_no_process_interrupt(int(stack.redis().info("server")["process_id"]))
        figures = list(_Phases(stack, receiver, jobs, progress).run())
    finally:
        stack.stop()
        receiver.close()
    return Outcome("Jobs that share one generation", tuple(figures), {"jobs": jobs, "redis_in_real_time": alone})


def _let_no_process_interrupt(redis_pid: int) -> bool:
    """Give Redis real-time priority, so that its slow log holds its own time and no other process's slices.

    Returns: whether this machine lets us.
    """
    try:
        os.sched_setscheduler(redis_pid, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True


class _Phases:
    def __init__(self, stack: Stack, receiver: Receiver, jobs: int, progress: Progress) -> None:
        self._stack, self._receiver, self._jobs, self._progress = stack, receiver, jobs, progress
        self._redis = stack.redis()
        caps = QueueCaps(10_000, 10_000)
        self._store = JobStore(self._redis, caps=caps, idempotency_seconds=60, submit_timeout=10)

    def run(self) -> Iterator[Figure]:
        self._order("drain", "drained")
        first = self._fill("first")
        yield from self._phase("settling", lambda: self._order("resume", "ready"), self._settled)
        if not all(self._store.existing(job_id).status is Status.COMPLETED for job_id in first):
            raise RuntimeError("not all jobs are completed")
        yield from self._phase("deadlines of what has ended", self._all_due, self._no_deadlines)
        self._order("drain", "drained")
        second = self._fill("second")
        yield from self._phase("deadlines of what waits", self._all_due, self._settled)
        if not all(self._store.existing(job_id).status is Status.FAILED for job_id in second):
            raise RuntimeError("not all jobs have ended at their deadline")

    def _order(self, order: str, state: str) -> None:
        answer = self._stack.ask("POST", f"/admin/pool/{MODEL}.0/{order}")
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"{order}: {answer.body!r}")
        wait_until(lambda: self._stack.pool(MODEL)[0]["state"] == state, what=f"it is {state}", every=0.1)

    def _fill(self, name: str) -> list[str]:
        """Ids of the jobs, which wait and share one generation."""
        self._progress(f"{self._jobs:,} jobs join")
        return list(self._joined(name))

    def _joined(self, name: str) -> Iterator[str]:
        request = CanonicalRequest([{"role": "user", "content": "we all ask this"}], {"max_tokens": 16})
        for number in range(self._jobs):
            job = NewJob(
                new_job_id(Kind.RESPONSE), Kind.RESPONSE, "dev", "dev", MODEL, "default", deadline_seconds=600,
                retention_seconds=3600, background=True, webhook=Webhook(self._receiver.url()),
            )  # fmt: skip
            generation = NewGeneration(new_generation_id(), request, 16.0, join=name)
            if self._store.submit(job, generation).joined is (number == 0):
                raise RuntimeError("a job did not join")
            yield job.id

    def _settled(self) -> bool:
        """Every job has ended and its webhook has come."""
        return len(self._receiver.received) >= self._jobs and not self._redis.exists("ph:outbox", "ph:deliveries:due")

    def _all_due(self) -> None:
        due = [str(job_id) for job_id in self._redis.zrange("ph:deadlines", 0, -1)]
        for start in range(0, len(due), 500):
            self._redis.zadd("ph:deadlines", dict.fromkeys(due[start : start + 500], 1), xx=True)

    def _no_deadlines(self) -> bool:
        return not self._redis.exists("ph:deadlines")

    def _phase(self, name: str, begin: Callable[[], object], over: Callable[[], bool]) -> Iterator[Figure]:
        """What Redis took long for, and for how long it kept others waiting, from `begin` until it is `over`."""
        self._progress(name)
        self._receiver.received.clear()
        slow_log = SlowLog(self._redis)
        with Prober(self._stack.redis_url) as prober:
            began = time.monotonic()
            begin()
            wait_until(over, what=name, limit=300, every=0.25)
            seconds = time.monotonic() - began
        slow = slow_log.entries()
        longest = max(slow, key=lambda entry: entry.seconds, default=Slow("none", 0))
        milliseconds = 1000 * longest.seconds
        yield Figure(f"{name}: longest command", milliseconds, "ms", at_most=LONGEST_MS, note=longest.name)
        yield Figure(f"{name}: commands longer than 1 ms", len(slow), note=_most(slow))
        typical = statistics.median(entry.seconds for entry in slow) if slow else 0.0
        yield Figure(f"{name}: median of these", 1000 * typical, "ms")
        yield Figure(f"{name}: another connection's pings, longest", 1000 * prober.pings.longest, "ms")
        yield Figure(f"{name}: another connection's pings, p99.9", 1000 * prober.pings.p999, "ms")
        yield Figure(f"{name}: all of it", seconds, "s")


def _most(slow: list[Slow]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(entry.name for entry in slow).most_common(4))
