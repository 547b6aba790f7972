"""How a submit can end: accepted, refused because the queue is full, or with an outcome that nobody knows."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import QueueFull, QueueUnavailable
from app.jobs.job import NewJob
from app.redis_errors import RETRY_AFTER

_RETRY_UNMEASURED = 5.0


class SubmitOutcomeUnknown(QueueUnavailable):
    """The submit's reply was lost: it may or may not have been written. `job_id` is what to void."""

    said = "the queue did not answer in time; nothing was accepted"

    def __init__(self, job_id: str) -> None:
        super().__init__(self.said, retry_after=RETRY_AFTER)
        self.job_id = job_id


class NotReplicated(SubmitOutcomeUnknown):
    """The record was written, but no replica confirmed it in time; it is not in line and must go."""

    said = "no replica of the queue's storage confirmed the job in time; nothing was accepted"


@dataclass(frozen=True)
class QueueCaps:
    """How many generations may wait for one model: in all, and of one tenant."""

    per_model: int
    per_tenant: int


@dataclass(frozen=True)
class Accepted:
    """A job that is kept.

    Attributes:
        position: rank in the model's line, -1 when it does not stand there.
        wait: seconds until it is expected to start; None when nobody can say.
        slot: the instance whose turn it is, or None for the model's shared queue.
        accepted_at: its `created_at`, Unix milliseconds of Redis' clock.
        replayed: an Idempotency-Key named a job that was there before.
        joined: it shares `generation`, which is in flight or has just ended.
        answered: it was born completed.
    """

    job_id: str
    generation: str
    position: int
    slot: str | None
    accepted_at: int
    replayed: bool = False
    joined: bool = False
    answered: bool = False
    wait: float | None = None


def queue_full(job: NewJob, scope: str, number: int, room_in: float | None) -> QueueFull:
    """The refusal. `room_in`: seconds until it would be accepted at the measured pace."""
    retry_after = _RETRY_UNMEASURED if room_in is None else room_in
    if scope == "wait":
        return QueueFull(
            f"the expected wait for model {job.model!r} is {number / 1000:.1f} s, too long for a deadline of "
            f"{job.deadline_seconds:g} s; try again later, or with a longer deadline_seconds",
            retry_after=retry_after,
        )
    whose = "your jobs" if scope == "tenant" else "jobs"
    return QueueFull(
        f"{number} of {whose} already wait for model {job.model!r}; try again later", retry_after=retry_after
    )
