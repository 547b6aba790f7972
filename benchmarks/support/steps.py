"""The submit step and the claim step of one line, timed at the client and inside Redis."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from app.jobs.generation import Usage
from app.jobs.store import SCRIPTS
from app.jobs.work import Verdict
from app.lua import AsyncScripts, ScriptBook
from app.redis import async_jobs_client, jobs_server
from app.settings import Settings
from benchmarks.support import crowd
from benchmarks.support.crowd import Crowd
from benchmarks.support.worker import MODEL
from model_pool import registry
from model_pool.registry import Registry
from workers import wiring

_OWNER = "bench"
_LESS_THAN_A_STEP = 20  # µs; single commands inside a script, which Redis 6 notes too, take less
STEPS = ("submit", "claim")
_POOL_SCRIPTS = ScriptBook(Path(registry.__file__).parent / "lua")
_DONE = Verdict("completed", Usage(60, 40), '{"text":"","finish_reason":"stop","tool_calls":[]}')


@dataclass
class Took:
    """Microseconds of each call, by step."""

    submit: list[float] = field(default_factory=list)
    claim: list[float] = field(default_factory=list)

    def add(self, more: Took) -> None:
        self.submit += more.submit
        self.claim += more.claim


class Line:
    """A model's line in a database of its own, with the stores of an API process and of a worker. Use on one loop.

    Args:
        policy: how the next instance is chosen.
    """

    def __init__(self, settings: Settings, policy: str = "round_robin") -> None:
        self._client: redis.Redis = wiring.commands(settings)
        self._store = wiring.job_store(settings)
        self._work = wiring.work_store(settings)
        pool = async_jobs_client(jobs_server(settings.redis), timeout=settings.redis.jobs_timeout)
        self._registry = Registry(AsyncScripts(pool, _POOL_SCRIPTS))
        self._crowd = Crowd(policy)
        self._tasks = itertools.count()

    def fill(self, count: int) -> None:
        """So many more stand in line."""
        self._crowd.enter(self._client, count)

    async def register(self, instances: int, most: int) -> None:
        """So many idle instances are in the pool, and none of the others up to `most`."""
        for slot in range(most):
            if slot < instances:
                await self._registry.beat(crowd.beat(slot))
            else:
                await self._registry.leave(crowd.instance(slot), MODEL)

    async def at_client(self, calls: int, instances: int) -> Took:
        """Submits and claims in turn, as long as their callers wait for them."""
        took = Took()
        for number in range(calls):
            job, generation = self._crowd.next()
            began = time.perf_counter()
            self._store.submit(job, generation)
            took.submit.append(1e6 * (time.perf_counter() - began))
            call = self._work.claim_call(MODEL, _OWNER, crowd.instance(number % instances), f"task-{next(self._tasks)}")
            began = time.perf_counter()
            (reply,) = await self._work.send([call])
            took.claim.append(1e6 * (time.perf_counter() - began))
            await self._commit(reply)
        return took

    async def in_redis(self, calls: int, instances: int) -> Took:
        """The same steps, as long as Redis is busy with them, by its slow log.

        Raises:
            RuntimeError: the slow log does not have each of them.
        """
        self._client.config_set("slowlog-log-slower-than", _LESS_THAN_A_STEP)
        self._client.slowlog_reset()
        await self.at_client(calls, instances)
        noted: list[Any] = self._client.execute_command("SLOWLOG", "GET", 10 * calls)  # each: id, when, µs, words, ...
        spent = {step: [entry[2] for entry in noted if SCRIPTS.sha(step) in entry[3]] for step in STEPS}
        if any(len(found) != calls for found in spent.values()):
            raise RuntimeError(f"of {calls} calls the slow log has {[len(found) for found in spent.values()]}")
        self._client.config_set("slowlog-log-slower-than", 10_000)
        return Took(**spent)

    async def _commit(self, reply: Sequence[Any]) -> None:
        claim = self._work.claim_from(reply)
        if claim is None:
            raise RuntimeError("a claim found nothing in line")
        await self._work.send([self._work.commit_call(claim, claim.sequence, _DONE, ['{"k":"end"}'])])
