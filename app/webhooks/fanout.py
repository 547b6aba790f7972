"""From outbox entries to delivery records.

The step that ends a generation or a job leaves one outbox entry, however many jobs hang on it. Here the entry becomes
one delivery per job, in chunks, and goes only when all of them exist. Whoever dies in between loses nothing: the next
one starts over, and what exists already is not made again. A job that cannot be read gets an entry of its own.
"""

from __future__ import annotations

from typing import Protocol

import structlog

from app.errors import Unavailable
from app.jobs.job import JobView
from app.redis import REDIS_AWAY
from app.webhooks.deliveries import DeliveryStore, NewDelivery
from app.webhooks.events import response_ended
from app.webhooks.targets import authority

_CHUNK = 50
_POSTPONED_SECONDS = 30.0
_log = structlog.get_logger()


class EndedJobs(Protocol):
    """Where ended jobs are read. `app.jobs.store.JobStore` is one."""

    def jobs_of_generation(self, generation: str, cursor: int, count: int) -> tuple[int, list[str]]:
        """Ids of about `count` jobs, and the cursor for the next ones; 0 begins, and 0 comes back at the end.

        An id may come twice, none is left out.
        """

    def view(self, job_id: str) -> JobView | None:
        """The job, or None when its record is gone."""


class NotEnded(Exception):
    """The outbox names a job that has no terminal state: a fault of ours, tried again later."""


class FanOut:
    """Drains the outbox. One call of `step` is bounded; cursors into large generations are kept between calls."""

    def __init__(self, store: DeliveryStore, jobs: EndedJobs) -> None:
        self._store = store
        self._jobs = jobs
        self._cursors: dict[str, int] = {}

    def step(self) -> tuple[int, int]:
        """Take each due entry one chunk further.

        Returns:
            (entries seen, deliveries created). No entry seen means that the outbox is drained.

        Raises:
            redis.RedisError, Unavailable: Redis is away; the entries stay.
        """
        entries = self._store.outbox(_CHUNK)
        self._cursors = {entry: cursor for entry, cursor in self._cursors.items() if entry in entries}
        return len(entries), sum(self._advance(entry) for entry in entries)

    def _advance(self, entry: str) -> int:
        try:
            cursor, job_ids = self._chunk(entry)
        except (*REDIS_AWAY, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001 -- one unreadable entry must not hold up the others; it is kept
            self._note(entry, error)
            self._store.outbox_postpone(entry, _POSTPONED_SECONDS)
            return 0
        unreadable: list[str] = []
        created = self._store.create(d for job_id in job_ids if (d := self._readable(job_id, unreadable)))
        for own in unreadable:
            self._store.outbox_add(own, _POSTPONED_SECONDS)
        if entry not in unreadable:
            self._move(entry, cursor)
        return created

    def _readable(self, job_id: str, unreadable: list[str]) -> NewDelivery | None:
        """The delivery of a job, if it is to have one. What cannot be read becomes an entry of its own."""
        try:
            return self._delivery(job_id)
        except (*REDIS_AWAY, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001 -- one unreadable job must not hold up the others; it is kept
            own = f"job:{job_id}"
            self._note(own, error)
            unreadable.append(own)
            return None

    @staticmethod
    def _note(entry: str, error: Exception) -> None:
        _log.error("webhook_fanout_failed", entry=entry, error=type(error).__name__)

    def _chunk(self, entry: str) -> tuple[int, list[str]]:
        kind, _, subject = entry.partition(":")
        if kind == "gen":
            return self._jobs.jobs_of_generation(subject, self._cursors.get(entry, 0), _CHUNK)
        return 0, [subject]

    def _move(self, entry: str, cursor: int) -> None:
        if cursor:
            self._cursors[entry] = cursor
            return
        self._cursors.pop(entry, None)
        self._store.outbox_done(entry)

    def _delivery(self, job_id: str) -> NewDelivery | None:
        job = self._jobs.view(job_id)
        if job is None or job.webhook is None:
            return None
        if not job.status.terminal:
            raise NotEnded(job_id)
        ended_at = (job.ended_at or job.now) / 1000
        event = response_ended(job_id, job.status.value, job.model, job.metadata, ended_at, retries=job.retries)
        if job.webhook.events and event.type not in job.webhook.events:
            return None
        url = job.webhook.url
        return NewDelivery(authority(url), job.tenant, url, event.id, event.type, job_id, event.body)
