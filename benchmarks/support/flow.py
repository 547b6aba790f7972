"""Jobs that come at a steady rate, and what their records say of them afterwards."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import redis

from app.hints import Hints
from app.jobs.accepting import QueueCaps
from app.jobs.generation import CanonicalRequest, NewGeneration, new_generation_id
from app.jobs.job import Kind, NewJob, new_job_id
from app.jobs.store import JobStore
from tests.support.waiting import wait_until

_FIELDS = ("created_at", "started_at", "ended_at", "status")
_CAPS = QueueCaps(10_000, 10_000)


@dataclass(frozen=True)
class Ran:
    """A generation's record. Seconds, of Redis' clock."""

    generation: str
    created: float
    started: float
    ended: float
    status: str

    @property
    def waited(self) -> float:
        return self.started - self.created


class Sender:
    """Submits background jobs to a stack as its API does, without HTTP: record, place in line and hint."""

    def __init__(self, client: redis.Redis, model: str) -> None:
        self._model = model
        self._store = JobStore(client, caps=_CAPS, idempotency_seconds=60, submit_timeout=5)
        self._hints = Hints(client)

    def send(self, count: int, *, per_second: float, tokens: int) -> list[str]:
        """So many jobs at this rate; their generations. What is late is not made up for by a burst."""
        generations = []
        for _ in range(count):
            due = time.monotonic() + 1 / per_second
            accepted = self._store.submit(*self._letter(tokens))
            self._hints.publish_run(self._model, accepted.generation, accepted.slot)
            generations.append(accepted.generation)
            time.sleep(max(0.0, due - time.monotonic()))
        return generations

    def _letter(self, tokens: int) -> tuple[NewJob, NewGeneration]:
        messages = [{"role": "user", "content": f"{{{{tokens={tokens}}}}}"}]
        job = NewJob(
            id=new_job_id(Kind.RESPONSE), kind=Kind.RESPONSE, tenant="bench", key_id="bench", model=self._model,
            tier="default", deadline_seconds=600, retention_seconds=600, background=True,
        )  # fmt: skip
        request = CanonicalRequest(messages, {"max_tokens": tokens + 1})
        return job, NewGeneration(new_generation_id(), request, cost=tokens)


def ended(client: redis.Redis, generations: Sequence[str], *, limit: float) -> list[Ran]:
    """Their records, once each has reached its end."""
    pipeline = client.pipeline(transaction=False)

    def look() -> list[Ran] | None:
        for generation in generations:
            pipeline.hmget(f"ph:gen:{generation}", *_FIELDS)
        found = pipeline.execute()
        if not all(end for _, _, end, _ in found):
            return None
        return [
            Ran(generation, int(created) / 1000, int(started or end) / 1000, int(end) / 1000, status)
            for generation, (created, started, end, status) in zip(generations, found, strict=True)
        ]

    return wait_until(look, what=f"{len(generations)} jobs end", limit=limit, every=0.25) or []


def saturated_rate(jobs: Sequence[Ran], places: int) -> float:
    """Jobs that ended a second while all places were taken and others waited: from the last place's first job to the
    start of the last job.
    """
    starts = sorted(job.started for job in jobs)
    full, last = starts[places - 1], starts[-1]
    return sum(full < job.ended <= last for job in jobs) / (last - full)
