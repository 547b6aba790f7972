"""Between records in Python and hashes in Redis: flat lists of strings out, `JobView` back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from app.jobs.generation import NewGeneration
from app.jobs.job import JobFailure, JobView, Kind, NewJob, Status, Webhook


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _flat(fields: dict[str, Any]) -> list[str]:
    return [str(part) for pair in fields.items() for part in pair]


def job_fields(job: NewJob) -> list[str]:
    """Field, value, … of `ph:job:<id>`.

    The script that accepts the job adds times (Redis' own), its generation and where its answer comes from.
    """
    hook = job.webhook
    return _flat(
        {
            "id": job.id,
            "kind": job.kind.value,
            "tenant": job.tenant,
            "key_id": job.key_id,
            "model": job.model,
            "tier": job.tier,
            "background": int(job.background),
            "stream": int(job.stream),
            "store": int(job.store),
            "metadata": _text(job.metadata),
            "echo": _text(job.echo),
            "input": _text(job.input_items),
            "webhook_url": hook.url if hook else "",
            "webhook_events": _text(hook.events) if hook else "",
            "idem": job.idempotency.key_digest if job.idempotency else "",
            "user": job.user,
        }
    )


def generation_fields(job: NewJob, generation: NewGeneration) -> list[str]:
    """Field, value, … of `ph:gen:<id>`; counters and times are added by the submit script."""
    return _flat(
        {
            "id": generation.id,
            "tenant": job.tenant,
            "model": job.model,
            "revision": generation.revision,
            "request": generation.request.to_json(),
            "cache": generation.cache,
            "fallbacks": _fallbacks(generation),
            "busy": generation.dispatch.busy_reply,
            "continuable": int(generation.request.continuable),
        }
    )


def _fallbacks(generation: NewGeneration) -> str:
    found = generation.dispatch.fallbacks
    return _text([{"model": model, "budget": budget} for model, budget in found]) if found else ""


def _pairs(flat: Sequence[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def seconds_from(milliseconds: Any) -> float | None:
    """An expected wait as scripts give it; below zero nobody can say."""
    return None if int(milliseconds) < 0 else int(milliseconds) / 1000


def view_from(reply: Sequence[Any]) -> JobView:
    """A `JobView` from the reply of the view script: [now, rank, job fields, generation fields, wait].

    A generation whose record is gone while its job is kept has run out of retention; its job reads as it ended, or
    failed when it never did.
    """
    job, gen = _pairs(reply[2]), _pairs(reply[3])
    own = job["status"] != ""
    status = Status(job["status"] or gen.get("status", Status.FAILED))
    source = job if own else gen
    code = source.get("error_code", "")
    ended = source.get("ended_at")
    rank = int(reply[1])
    return JobView(
        eta_seconds=seconds_from(reply[4]) if rank >= 0 and not own else None,
        id=job["id"],
        kind=Kind(job["kind"]),
        tenant=job["tenant"],
        generation=job["gen"],
        model=job["model"],
        status=status,
        tier=job["tier"],
        created_at=int(job["created_at"]),
        deadline_at=int(job["deadline_at"]),
        now=int(reply[0]),
        background=job["background"] == "1",
        stream=job["stream"] == "1",
        store=job["store"] == "1",
        metadata=json.loads(job["metadata"]),
        echo=json.loads(job["echo"]),
        input_items=json.loads(job["input"]),
        webhook=_webhook(job),
        key_id=job["key_id"],
        user=job["user"],
        started_at=int(gen["started_at"]) if "started_at" in gen else None,
        ended_at=int(ended) if ended and status.terminal else None,
        position=rank if rank >= 0 and not own else None,
        attempts=int(gen.get("attempts", 0)),
        retries=int(job.get("retries", 0)),
        end_sequence=int(job["end_sequence"]) if own else None,
        failure=JobFailure(code, source.get("error_message", "")) if code else None,
        result=json.loads(gen["result"]) if gen.get("result") and not own else None,
        cache=job["cache"],
        degraded=gen.get("degraded") == "1",
        keyed=job["idem"] != "",
    )


def _webhook(job: dict[str, str]) -> Webhook | None:
    if not job["webhook_url"]:
        return None
    return Webhook(job["webhook_url"], tuple(json.loads(job["webhook_events"] or "[]")))
