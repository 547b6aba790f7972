"""A job as it is at the moment of its acceptance, without another look at its record."""

from __future__ import annotations

from dataclasses import replace

from app.jobs.accepting import Accepted
from app.jobs.job import JobView, NewJob, Status
from app.services.cached_answers import Found


def as_answered(job: NewJob, accepted: Accepted, found: Found) -> JobView:
    """A job that was born completed, as a look at its record would show it."""
    now = accepted.accepted_at
    return replace(
        as_queued(job, accepted),
        status=Status.COMPLETED,
        position=None,
        eta_seconds=None,
        started_at=now,
        ended_at=now,
        result=found.result.to_dict(),
        cache=found.state,
    )


def as_queued(job: NewJob, accepted: Accepted) -> JobView:
    """What a look at the record would show, without the look."""
    now = accepted.accepted_at
    return JobView(
        id=job.id,
        kind=job.kind,
        tenant=job.tenant,
        generation=accepted.generation,
        model=job.model,
        status=Status.QUEUED,
        tier=job.tier,
        created_at=now,
        deadline_at=now + int(job.deadline_seconds * 1000),
        now=now,
        background=job.background,
        stream=job.stream,
        store=job.store,
        metadata=job.metadata,
        echo=job.echo,
        input_items=job.input_items,
        webhook=job.webhook,
        key_id=job.key_id,
        user=job.user,
        position=accepted.position,
        eta_seconds=accepted.wait,
        keyed=job.idempotency is not None,
    )
