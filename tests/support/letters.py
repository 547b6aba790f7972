"""Jobs and generations for tests, with everything that a test does not care about filled in."""

from __future__ import annotations

from typing import Any

from app.jobs.generation import CanonicalRequest, NewGeneration, new_generation_id
from app.jobs.job import Kind, NewJob, new_job_id


def request(text: str = "hello", **params: Any) -> CanonicalRequest:
    return CanonicalRequest([{"role": "user", "content": text}], {"max_tokens": 16, **params})


def letter(
    *, tenant: str = "t", model: str = "m", tier: str = "default", cost: float = 10, text: str = "hello",
    params: dict[str, Any] | None = None, **job: Any,
) -> tuple[NewJob, NewGeneration]:  # fmt: skip
    """A job and its generation, ready for `JobStore.submit`."""
    facts: dict[str, Any] = {"deadline_seconds": 60, "retention_seconds": 600, "key_id": "k", "kind": Kind.RESPONSE}
    facts.update(job)
    facts.setdefault("id", new_job_id(facts["kind"]))
    new = NewJob(tenant=tenant, model=model, tier=tier, **facts)
    return new, NewGeneration(new_generation_id(), request(text, **(params or {})), cost)
