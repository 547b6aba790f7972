"""The job store as the API uses it: submit, look, cancel, void, read a log. Synchronous; one round trip a call.

Redis errors come out as `app.redis_errors` translates them. A submit whose reply was lost raises
`SubmitOutcomeUnknown`, because "not accepted" would be a guess.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import redis

from app.errors import (
    IdempotencyConflict,
    IdempotencyExpired,
    JobNotFound,
    QueueUnavailable,
)
from app.jobs import events
from app.jobs.accepting import Accepted, NotReplicated, QueueCaps, SubmitOutcomeUnknown, queue_full
from app.jobs.clock import RedisClock
from app.jobs.generation import CanonicalRequest, NewGeneration, Result
from app.jobs.job import Idempotency, JobView, NewJob, Status
from app.jobs.records import generation_fields, job_fields, seconds_from, view_from
from app.lua import ScriptBook, Scripts
from app.redis import REDIS_AWAY
from app.redis_errors import RETRY_AFTER, ConnectionNeverMade, translated

SCRIPTS = ScriptBook(Path(__file__).parent / "lua")
_TOMBSTONE_MS = 60_000
_MOST_JOINED = 10_000
_SUBMITS_AT_ONCE = 32
_LONGEST_WAIT = 3.0
_WRITTEN = frozenset({"held", "joined", "born"})


class JobStore:
    """Jobs and generations in Redis, for processes that serve clients.

    Args:
        client: of the jobs role.
        caps: of the lines.
        idempotency_seconds: how long keys are remembered.
        submit_timeout: seconds after which a submit that was not yet done is never done.
        replication_timeout: seconds in which a replica must have an accepted job's record; None: none needs to.
    """

    def __init__(
        self,
        client: redis.Redis,
        *,
        caps: QueueCaps,
        idempotency_seconds: float,
        submit_timeout: float,
        replication_timeout: float | None = None,
    ) -> None:
        self._client = client
        self._scripts = Scripts(client, SCRIPTS)
        self._caps = caps
        self._idempotency_ms = int(idempotency_seconds * 1000)
        self._submit_timeout_ms = int(submit_timeout * 1000)
        self._gate = threading.BoundedSemaphore(_SUBMITS_AT_ONCE)
        self._clock = RedisClock(client)
        self._confirm_ms = None if replication_timeout is None else int(replication_timeout * 1000)

    def submit(self, job: NewJob, generation: NewGeneration) -> Accepted:
        """Write a job and its generation and put it in line.

        Raises:
            QueueFull: a cap is reached; nothing was written.
            IdempotencyConflict, IdempotencyExpired: the key belongs to another body, or to a job whose content is gone.
            QueueUnavailable: Redis is away and nothing was or will be written.
            SubmitOutcomeUnknown: the reply was lost, or no replica has the record; the caller must void the job.
            StorageFull: Redis has no room.
        """
        facts = self._facts(job, generation)
        mine, theirs = job_fields(job), generation_fields(job, generation)
        return self._accepted(self._accept("submit", job, facts, len(mine), *mine, *theirs), job, generation)

    def repeats(self, tenant: str, key: Idempotency) -> bool:
        """Whether a request only repeats one that was taken already: the same key with the same body."""
        with translated():
            return bool(self._scripts.call("repeats", tenant, key.key_digest, key.body_digest))

    def submit_answered(self, job: NewJob, generation: NewGeneration, answer: Result, *, cache: str) -> Accepted:
        """Write a job that is completed from the start, with an answer from the cache (`cache`: hit or stale).

        Raises: as `submit`, without `QueueFull`.
        """
        mine = job_fields(job)
        theirs = [*generation_fields(job, generation), "result", answer.to_json()]
        facts = {**self._facts(job, generation), "cache": cache, "fields": len(theirs)}
        log = events.whole_answer(answer.text, answer.finish_reason)
        reply = self._accept("born", job, facts, len(mine), *mine, *theirs, *log)
        return self._accepted(reply, job, generation)

    def _accept(self, script: str, job: NewJob, facts: dict[str, Any], *args: Any) -> list[Any]:
        """Call an accepting script with its "not after"; a lost reply leaves the outcome unknown.

        Only so many at once: in a burst the others wait here, before their "not after" is set, and not for a
        connection, where it would pass.
        """
        if not self._gate.acquire(timeout=_LONGEST_WAIT):
            raise QueueUnavailable("too many requests came at once; nothing was accepted", retry_after=RETRY_AFTER)
        try:
            return self._accept_now(script, job, facts, *args)
        finally:
            self._gate.release()

    def _accept_now(self, script: str, job: NewJob, facts: dict[str, Any], *args: Any) -> list[Any]:
        with translated():
            not_after = self._clock.now() + self._submit_timeout_ms
        try:
            with translated():
                reply = self._write(script, job, facts["policy"], not_after, json.dumps(facts), *args)
        except (ConnectionNeverMade, SubmitOutcomeUnknown):
            raise
        except QueueUnavailable as error:
            raise SubmitOutcomeUnknown(job.id) from error
        self._clock.heard(int(reply[1]))
        return reply

    def _write(self, script: str, job: NewJob, policy: str, *args: Any) -> list[Any]:
        """One step; where a replica has to confirm it two, because nothing may run before."""
        if self._confirm_ms is None:
            return list(self._scripts.call(script, *args))
        reply, replicas = self._scripts.call_confirmed(script, *args, within_ms=self._confirm_ms)
        if reply[0] not in _WRITTEN:
            return list(reply)
        if replicas < 1:
            raise NotReplicated(job.id)
        if reply[0] == "born":
            return list(reply)
        try:
            placed = self._scripts.call("admit", job.id, policy)
        except (*REDIS_AWAY, redis.RedisError) as error:  # the record stands, even if this was never sent
            raise SubmitOutcomeUnknown(job.id) from error
        if placed[0] == "gone":
            raise SubmitOutcomeUnknown(job.id)
        return list(placed) if reply[0] == "held" else [*reply[:4], *placed[3:]]

    def _facts(self, job: NewJob, generation: NewGeneration) -> dict[str, Any]:
        idem = job.idempotency
        return {
            "job_id": job.id,
            "gen_id": generation.id,
            "tenant": job.tenant,
            "model": job.model,
            "tier": job.tier,
            "cost": round(generation.cost, 3),
            "deadline_in": int(job.deadline_seconds * 1000),
            "ttl": int((job.deadline_seconds + job.retention_seconds) * 1000),
            "queue_cap": self._caps.per_model,
            "tenant_cap": self._caps.per_tenant,
            "idem": idem.key_digest if idem else "",
            "idem_body": idem.body_digest if idem else "",
            "idem_ttl": self._idempotency_ms,
            "webhook": 1 if job.webhook else 0,
            "held": 0 if self._confirm_ms is None else 1,
            "join": generation.join,
            "policy": generation.dispatch.policy,
            "busy_after": int(generation.dispatch.busy_after * 1000) if generation.dispatch.busy_reply else 0,
            "join_cap": _MOST_JOINED,
        }

    def _accepted(self, reply: list[Any], job: NewJob, generation: NewGeneration) -> Accepted:
        match reply[0]:
            case "ok":
                wait = seconds_from(reply[4])
                return Accepted(job.id, generation.id, int(reply[3]), str(reply[2]) or None, int(reply[1]), wait=wait)
            case "replayed":
                return Accepted(str(reply[2]), "", -1, None, int(reply[1]), replayed=True)
            case "born":
                return Accepted(job.id, generation.id, -1, None, int(reply[1]), answered=True)
            case "joined":
                wait = seconds_from(reply[5])
                return Accepted(job.id, str(reply[2]), int(reply[4]), None, int(reply[1]), joined=True, wait=wait)
            case "full":
                raise queue_full(job, str(reply[2]), int(reply[3]), seconds_from(reply[4]))
            case "conflict":
                raise IdempotencyConflict("this Idempotency-Key was used with another body; use a new key")
            case "expired":
                raise IdempotencyExpired("the job of this Idempotency-Key is no longer kept; use a new key")
            case _:  # 'late' and 'void': the script ran after its time and did nothing
                raise QueueUnavailable("the queue answered too late; nothing was accepted", retry_after=RETRY_AFTER)

    def stand_in(self, generation: str) -> tuple[str, str | None] | None:
        """Give work that was just put in line to a fallback, if no instance of its own model is healthy.

        Returns: the fallback and the instance whose turn it is there, or None when the work stays where it is.
        """
        with translated():
            reply = self._scripts.call("stand_in", generation)
        return (str(reply[0]), str(reply[1]) or None) if reply else None

    def view(self, job_id: str) -> JobView | None:
        """The job as it is now, or None when no such job is kept."""
        with translated():
            reply = self._scripts.call("view", job_id)
        return view_from(reply) if reply else None

    def existing(self, job_id: str) -> JobView:
        """Like `view`, but raises `JobNotFound`."""
        view = self.view(job_id)
        if view is None:
            raise JobNotFound(f"no job {job_id!r} is kept")
        return view

    def cancel(self, job_id: str, *, code: str = "", message: str = "") -> bool:
        """End a job as cancelled; False when it had ended (or is gone) already."""
        with translated():
            return bool(self._scripts.call("leave", job_id, Status.CANCELLED.value, code, message) == "ended")

    def delete(self, job_id: str) -> bool:
        """End the job if it runs, and forget it; False when there is none."""
        with translated():
            return bool(self._scripts.call("delete", job_id))

    def request(self, generation: str) -> CanonicalRequest | None:
        """What the engine was asked, or None when the generation is no longer kept."""
        with translated():
            text: Any = self._client.hget(f"ph:gen:{generation}", "request")
        return CanonicalRequest.from_json(text) if text else None

    def page_of_jobs(self, tenant: str, *, before: str | None, count: int) -> list[str] | None:
        """Ids of a tenant's jobs, newest first, those older than job `before`; None when that one is not listed.

        Ids of jobs that are no longer kept may be among them; see `drop_listed`.
        """
        key = f"ph:tenant:{tenant}:jobs"
        with translated():
            rank: Any = -1 if before is None else self._client.zrevrank(key, before)
            if rank is None:
                return None
            found: Any = self._client.zrevrange(key, rank + 1, rank + count)
        return [str(job_id) for job_id in found]

    def drop_listed(self, tenant: str, gone: Sequence[str]) -> None:
        """Take ids of jobs that are no longer kept out of the tenant's list."""
        if gone:
            with translated():
                self._client.zrem(f"ph:tenant:{tenant}:jobs", *gone)

    def void(self, job_id: str) -> None:
        """Make sure that a submit with an unknown outcome never runs. Safe to repeat."""
        with translated():
            self._scripts.call("void", job_id, _TOMBSTONE_MS)

    def log(self, generation: str, *, start: int = 0, count: int = 1000) -> list[events.Event]:
        """Up to `count` events of a generation from sequence number `start` on."""
        with translated():
            entries = self._client.xrange(f"ph:gen:{generation}:log", min=f"{start + 1}-0", count=count)
        return events.from_stream(entries)  # type: ignore[arg-type]

    def whole_log(self, generation: str, *, start: int = 0, end: int | None = None) -> Iterator[events.Event]:
        """All events from `start` up to and without `end`, read in pages."""
        while page := self.log(generation, start=start):
            for event in page:
                if end is not None and event.sequence >= end:
                    return
                yield event
            start = page[-1].sequence + 1

    def next_sequence(self, generation: str) -> int:
        """The number that a generation's next event would get; 0 when nothing is kept."""
        with translated():
            last: Any = self._client.xrevrange(f"ph:gen:{generation}:log", count=1)
        return events.from_stream(last)[0].sequence + 1 if last else 0

    def jobs_of_generation(self, generation: str, cursor: int, count: int) -> tuple[int, list[str]]:
        """A page of the ids of a generation's jobs; a returned cursor of 0 is the end (SSCAN's contract)."""
        with translated():
            reply: Any = self._client.sscan(f"ph:gen:{generation}:jobs", cursor=cursor, count=count)
        return int(reply[0]), [str(j) for j in reply[1]]

    def generation_of_task(self, task_id: str) -> str | None:
        """The generation that a Celery task runs or ran, or None when it never started one."""
        with translated():
            found: Any = self._client.get(f"ph:task:{task_id}")
        return None if found is None else str(found)

    def ping(self) -> None:
        """Raises `QueueUnavailable` when Redis does not answer."""
        with translated():
            self._client.ping()

    def stats(self, model: str) -> Mapping[str, int]:
        """Counters of a model: completed, failed, cancelled, incomplete, tokens_in, tokens_out."""
        with translated():
            found: Any = self._client.hgetall(f"ph:stats:{model}")
        return {k: int(v) for k, v in found.items()}
