"""Dead letters: jobs that were given up after their last attempt, for operators to look at and to try again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, cast

import redis

from app.errors import JobNotFound, ModelNotFound, NotADeadLetter
from app.jobs.generation import new_generation_id
from app.jobs.job import is_job_id
from app.jobs.store import SCRIPTS
from app.lua import Scripts
from app.redis_errors import translated
from app.sections import ModelSettings

_DEAD = "ph:dead"
_MOST_JOBS_OF_ONE = 100
_FIELDS = ("tenant", "model", "instance", "attempts", "error_code", "error_message", "ended_at")


class HintPublisher(Protocol):
    """Tells workers that there is work; never raises."""

    def publish_run(self, model: str, generation: str, slot: str | None) -> object: ...


@dataclass(frozen=True)
class DeadLetter:
    """One job that was given up. `message` is ours and quotes nobody's prompt; `ended_at` in Unix seconds."""

    id: str
    generation: str
    tenant: str
    model: str
    instance: str
    attempts: int
    code: str
    message: str
    ended_at: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class DeadLetters:
    """The use case. Redis away raises `QueueUnavailable`.

    Args:
        client: jobs role.
        models: those that are offered; none for a command that looks in from outside without a configuration.
    """

    def __init__(self, client: redis.Redis, hints: HintPublisher, models: Mapping[str, ModelSettings]) -> None:
        self._client = client
        self._scripts = Scripts(client, SCRIPTS)
        self._hints = hints
        self._models = models

    def latest(self, limit: int) -> list[DeadLetter]:
        """Of the latest `limit` generations that were given up, newest first; each job that hung on one is a letter."""
        with translated():
            generations = cast("list[str]", self._client.zrevrange(_DEAD, 0, limit - 1))
            return [letter for generation in generations for letter in self._letters(generation)]

    def _letters(self, generation: str) -> list[DeadLetter]:
        key = f"ph:gen:{generation}"
        fields = cast("list[str | None]", self._client.hmget(key, *_FIELDS))
        if fields[0] is None:  # its retention is over
            self._client.zrem(_DEAD, generation)
            return []
        tenant, model, instance, attempts, code, message, ended_at = (field or "" for field in fields)
        jobs = cast("list[str]", self._client.srandmember(f"{key}:jobs", _MOST_JOBS_OF_ONE))
        about = (generation, tenant, model, instance, int(attempts), code, message, int(ended_at) / 1000)
        return [DeadLetter(job, *about) for job in sorted(jobs)]

    def retry(self, job_id: str) -> None:
        """Put a dead letter back in line: same job id, new attempts, the deadline counted from now, a log from 0.

        Raises:
            JobNotFound: no such job is kept.
            NotADeadLetter: it has not failed, or not after all of its attempts.
            ModelNotFound: its model has been removed since.
        """
        generation = new_generation_id()
        with translated():
            reply = self._scripts.call("retry", job_id, generation, self._policy(self._model(job_id)))
        if reply[0] == "gone":
            raise JobNotFound(f"no job {job_id[:80]!r} is kept here; it may have aged out")
        if reply[0] == "not_dead":
            raise NotADeadLetter(f"job {job_id} is not among the dead letters: it did not fail after its last attempt")
        self._hints.publish_run(str(reply[1]), generation, str(reply[2]) or None)

    def _policy(self, model: str) -> str:
        """Whose turn it is."""
        settings = self._models.get(model)
        if settings is None and model and self._models:
            raise ModelNotFound(f"the model {model!r} of this job is not served here any more", param=None)
        return settings.policy if settings else "round_robin"

    def _model(self, job_id: str) -> str:
        if not is_job_id(job_id):
            raise JobNotFound(f"no job {job_id[:80]!r} is kept here; it may have aged out")
        return str(self._client.hget(f"ph:job:{job_id}", "model") or "")
