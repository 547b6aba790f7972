"""How fast one worker drains a full line, against bare Celery draining as many no-op tasks.

Both find 4,000 messages in the queue of a fresh Redis and run with the same pool, concurrency and settings (events on,
results ignored, late acks, prefetch 1). The engine costs nothing: its tokens are due at once. Measured from the first
claim to the last commit, in Redis' time as the records have it; for bare Celery from the first task to the last.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import redis

from app.hints import Hints
from app.jobs.accepting import QueueCaps
from app.jobs.generation import CanonicalRequest, NewGeneration, new_generation_id
from app.jobs.job import Kind, NewJob, new_job_id
from app.jobs.store import JobStore
from benchmarks.support import bare_tasks, worker
from benchmarks.support.figures import Outcome, over_rounds
from benchmarks.support.progress import Progress
from benchmarks.support.worker import MODEL
from tests.support.redis_process import RedisProcess

JOBS = 4000
CONCURRENCY = 16
ROUNDS = 3
PROMPT = "Where is my order?"  # the paced engine echoes it
_LIMIT = 180.0


def measure(progress: Progress, *, rounds: int = ROUNDS, jobs: int = JOBS, concurrency: int = CONCURRENCY) -> Outcome:
    """Run bare and whole in turn."""
    bare, whole = [], []
    for number in range(1, rounds + 1):
        progress(f"round {number} of {rounds}, bare Celery")
        bare.append(_round(worker.BARE_APP, jobs, concurrency))
        progress(f"round {number} of {rounds}, Posthouse")
        whole.append(_round(worker.REAL_APP, jobs, concurrency))
    ratios = [ours / theirs for ours, theirs in zip(whole, bare, strict=True)]
    return Outcome(
        "One worker draining a full line",
        (
            over_rounds("jobs a second ÷ bare Celery's no-op tasks a second", ratios, at_least=0.5),
            over_rounds("jobs drained", whole, unit="/s"),
            over_rounds("no-op tasks drained by bare Celery", bare, unit="/s"),
        ),
        {"jobs": jobs, "concurrency": concurrency, "pool": "threads", "prompt": PROMPT},
    )


def _round(celery_app: str, jobs: int, concurrency: int) -> float:
    """One drain in a fresh Redis: how many a second."""
    server = RedisProcess()
    try:
        with tempfile.TemporaryDirectory(prefix="ph-bench-") as folder:
            config = worker.configure(Path(folder), server.url(), concurrency=concurrency)
            generations = _fill(server.client(), jobs)
            with worker.running(config, celery_app) as running:
                running.wait(lambda: bare_tasks.drained(server.client()), what="the queue is empty", limit=_LIMIT)
            if celery_app == worker.REAL_APP:
                return jobs / _span_of_records(server.client(), generations)
            first, last = bare_tasks.span(server.client(), jobs)
            return jobs / (last - first)
    finally:
        server.close()


def _fill(client: redis.Redis, jobs: int) -> list[str]:
    """Jobs in line, and a hint for each in the model's queue. Returns the generations."""
    store = JobStore(client, caps=QueueCaps(jobs, jobs), idempotency_seconds=60, submit_timeout=5)
    hints = Hints(client)
    generations = [store.submit(*_letter()).generation for _ in range(jobs)]
    if not all(hints.publish_run(MODEL, generation) for generation in generations):
        raise RuntimeError("not every hint was published")
    return generations


def _letter() -> tuple[NewJob, NewGeneration]:
    request = CanonicalRequest([{"role": "user", "content": PROMPT}], {"max_tokens": 16})
    job = NewJob(
        id=new_job_id(Kind.RESPONSE), kind=Kind.RESPONSE, tenant="bench", key_id="bench", model=MODEL, tier="default",
        deadline_seconds=600, retention_seconds=600, background=True,
    )  # fmt: skip
    return job, NewGeneration(new_generation_id(), request, cost=20)


def _span_of_records(client: redis.Redis, generations: list[str]) -> float:
    """Seconds from the first claim to the last commit; every generation must have completed."""
    pipeline = client.pipeline(transaction=False)
    for generation in generations:
        pipeline.hmget(f"ph:gen:{generation}", "status", "started_at", "ended_at")
    records = pipeline.execute()
    if any(status != "completed" for status, _, _ in records):
        raise RuntimeError("not every job was completed")
    return (max(int(ended) for _, _, ended in records) - min(int(started) for _, started, _ in records)) / 1000
