"""Three times what the engine can do, for a minute: throughput, honest waits, quick refusals.

One tenant, one tier, deadlines of 5 s. The load is open: arrivals come at a fixed rate, whatever became of the earlier
ones. Capacity is what the engine's pace allows: places ÷ seconds an answer takes. Waits are those of the records, in
Redis' time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks.support import arrivals
from benchmarks.support.arrivals import Arrivals, Reply
from benchmarks.support.figures import Figure, Outcome, percentile
from benchmarks.support.progress import Progress
from tests.support.stack import KEY, Stack
from tests.support.waiting import wait_until

MODEL = "paced"
PLACES = 16
TTFT_MS, TPOT_MS, TOKENS = 100, 50, 19
ANSWER_SECONDS = (TTFT_MS + (TOKENS - 1) * TPOT_MS) / 1000
CAPACITY = PLACES / ANSWER_SECONDS
TIMES = 3
SECONDS = 60.0
DEADLINE = 5
RETRIES = 10
CONFIG = f"""
[models.{MODEL}]
engine = "paced"
max_concurrency = {PLACES}
options = {{ ttft_ms = {TTFT_MS}, tpot_ms = {TPOT_MS} }}
"""
BODY = {
    "model": MODEL,
    "input": f"word {{{{tokens={TOKENS}}}}}",
    "background": True,
    "deadline_seconds": DEADLINE,
    "max_output_tokens": TOKENS,
}


@dataclass(frozen=True)
class Job:
    """What became of an accepted request: the wait it was told, and its record. Seconds, of Redis' clock."""

    eta: float | None
    created: float
    started: float | None
    ended: float
    code: str

    @property
    def told_the_truth(self) -> bool:
        """Within 30 % or half a second of the real wait. Who was told nothing, or never started, was not."""
        if self.eta is None or self.started is None:
            return False
        real = self.started - self.created
        return abs(self.eta - real) <= max(0.5, 0.3 * real)


def measure(progress: Progress, *, seconds: float = SECONDS) -> Outcome:
    """One minute of load on a stack that has just started, then the books and the retries."""
    progress("the stack starts")
    stack = Stack(CONFIG)
    try:
        progress(f"{TIMES * CAPACITY:g} arrivals a second")
        port = urlsplit(stack.url).port or 0
        replies = arrivals.run(Arrivals(port, KEY, "/v1/responses", BODY, TIMES * CAPACITY, seconds))
        _drained(stack)
        progress("what was refused comes again")
        retried = sum(_accepted_after_its_time(stack) for _ in range(RETRIES))
        figures = _figures(replies, list(_jobs(stack, replies)), seconds, retried)
    finally:
        stack.stop()
    return Outcome(
        "Three times the capacity",
        tuple(figures),
        {"capacity": CAPACITY, "arrivals": len(replies), "seconds": seconds, "deadline_seconds": DEADLINE},
    )


def _drained(stack: Stack) -> None:
    redis = stack.redis()
    wait_until(
        lambda: not redis.exists(f"ph:line:{MODEL}", "ph:running"), what="nothing waits or runs", limit=60, every=0.1
    )


def _jobs(stack: Stack, replies: list[Reply]) -> Iterator[Job]:
    redis = stack.redis()
    for reply in replies:
        if not reply.job_id:
            continue
        job = redis.hmget(f"ph:job:{reply.job_id}", "gen", "ended_at", "error_code")
        created, started, ended = redis.hmget(f"ph:gen:{job[0]}", "created_at", "started_at", "ended_at")
        yield Job(
            reply.eta, int(created) / 1000, int(started) / 1000 if started else None, int(job[1] or ended) / 1000,
            job[2] or "",
        )  # fmt: skip


def _accepted_after_its_time(stack: Stack) -> bool:
    """Fill the line until somebody is refused; whether a submit is accepted after just the time that it was told."""
    while (refused := stack.ask("POST", "/v1/responses", BODY)).status == 200:
        continue
    time.sleep(int(refused.headers["retry-after"]))
    return stack.ask("POST", "/v1/responses", BODY).status == 200


def _figures(replies: list[Reply], jobs: list[Job], seconds: float, retried: int) -> Iterator[Figure]:
    refused = [reply for reply in replies if (reply.status, reply.code) == (429, "queue_full")]
    taken = [reply for reply in replies if reply.job_id]
    # From the first answer that can have ended to the last arrival.
    begin, end = min(job.created for job in jobs) + ANSWER_SECONDS, min(job.created for job in jobs) + seconds
    finished = sum(begin < job.ended <= end and not job.code for job in jobs) / (end - begin)
    yield Figure("finished jobs a second ÷ capacity", finished / CAPACITY, at_least=0.95)
    truths = sum(job.told_the_truth for job in jobs) / len(jobs)
    yield Figure("accepted jobs whose wait was told within 30 % or 0.5 s", truths, at_least=0.9)
    yield Figure("refusals, p99", 1000 * percentile([r.seconds for r in refused], 0.99), "ms", at_most=50)
    yield Figure(
        "answers that are neither accepted nor queue_full", len(replies) - len(taken) - len(refused), at_most=0
    )
    yield Figure("accepted, ended by their deadline in line", sum(bool(j.code) and j.started is None for j in jobs))
    yield Figure(
        "accepted, ended by their deadline while running", sum(bool(j.code) and j.started is not None for j in jobs)
    )
    yield Figure("submits accepted after just the time a refusal told", retried / RETRIES)
    yield Figure("accepted", len(taken))
    yield Figure("refused", len(refused))
    yield Figure("told no wait", sum(job.eta is None for job in jobs))
    yield Figure("refusals, median", 1000 * percentile([r.seconds for r in refused], 0.5), "ms")
    yield Figure("acceptances, median", 1000 * percentile([r.seconds for r in taken], 0.5), "ms")
    yield Figure("acceptances, p99", 1000 * percentile([r.seconds for r in taken], 0.99), "ms")
    yield Figure("longest wait in line", max(j.started - j.created for j in jobs if j.started is not None), "s")
